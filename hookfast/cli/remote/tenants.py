"""`hookfast tenants`: the platform's customers."""

from __future__ import annotations

import typer

from hookfast.cli.remote.delivery_filter import Limit
from hookfast.cli.remote.moment import shown
from hookfast.cli.remote.option_groups import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import plain, show_table

app = typer.Typer()


@command(app, "list")
def list_tenants(remote: Remote, limit: Limit = 50) -> None:
    """List tenants, newest first."""
    rows = remote.rows("/tenants", {}, limit=limit)
    if rows is not None:
        show_table(
            ("id", "name", "created"),
            [(row["id"], row["name"], shown(row["created_at"])) for row in rows],
            nothing="There is no tenant yet. Make one with `hookfast tenants create NAME`.",
            wide="name",
        )


@command(app, "create")
def create(remote: Remote, name: str) -> None:
    """Create a tenant."""
    answer = remote.api.post("/tenants", {"name": name})
    if remote.as_json:
        remote.print_json(answer)
    else:
        typer.echo(f"{answer.value['id']} is the tenant {plain(answer.value['name'])}.")
