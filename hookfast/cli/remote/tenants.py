"""`hookfast tenants`: the platform's customers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import plain, say, show_table
from hookfast.cli.remote.times import shown

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


def portal_link(
    remote: Remote, tenant: str | None, *, endpoint: str | None, may_act: bool, lasting: timedelta
) -> None:
    """Make a link and print it, the only time anyone sees it."""
    form: dict[str, Any] = {
        "scope": "tenant" if may_act else "tenant:read",
        "expires_in_seconds": int(lasting.total_seconds()),
    }
    if endpoint is not None:
        form["endpoint_id"] = endpoint
    if tenant is None:
        tenant = remote.api.get(path_of("endpoints", endpoint or "")).value["tenant_id"]
    answer = remote.api.post(path_of("tenants", tenant, "portal-links"), form)
    if remote.as_json:
        remote.print_json(answer)
        return
    what = f"{endpoint} and its deliveries" if endpoint else f"what is {tenant}'s"
    until = shown(answer.value["expires_at"])
    say(f"Whoever has this link {'sees and steers' if may_act else 'sees'} {what}, until {until}:")
    typer.echo(answer.value["url"])
