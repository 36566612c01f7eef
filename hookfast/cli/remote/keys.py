"""`hookfast keys`: API keys of the operator's and of tenants."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_table
from hookfast.cli.remote.times import ahead, distance

app = typer.Typer()

Tenant = Annotated[
    str | None, typer.Option(metavar="ID", help="Of this tenant; default: the operator's.")
]


@command(app, "list")
def list_keys(remote: Remote, tenant: Tenant = None, limit: Limit = 50) -> None:
    """List API keys, newest first."""
    rows = remote.rows(_path(tenant), {}, limit=limit)
    if rows is not None:
        show_table(
            ("id", "begins with", "scope", "name", "created", "used", "expires"),
            [
                (
                    row["id"],
                    row["hint"],
                    row["scope"],
                    row["name"],
                    distance(row["created_at"]),
                    distance(row["last_used_at"]),
                    distance(row["expires_at"]),
                )
                for row in rows
            ],
            nothing="There is no API key.",
            wide="name",
        )


@command(app, "create")
def create(
    remote: Remote,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        str, typer.Option(help="operator or emit; of a tenant: tenant, tenant:read or emit.")
    ],
    tenant: Tenant = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it stops working: 30d, or RFC 3339.")
    ] = None,
) -> None:
    """Create an API key and print it, the only time anyone sees it."""
    form = {"name": name, "scope": scope}
    if expires is not None:
        form["expires_at"] = ahead(expires)
    answer = remote.api.post(_path(tenant), form)
    if remote.as_json:
        remote.print_json(answer)
        return
    say(f"{answer.value['id']}, scope {answer.value['scope']}. The key is shown this once:")
    typer.echo(answer.value["key"])


@command(app, "revoke")
def revoke(remote: Remote, key_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Make an API key stop working."""
    remote.api.delete(path_of("api-keys", key_id))
    say(f"{key_id} is revoked.")


def _path(tenant: str | None) -> str:
    return "/api-keys" if tenant is None else path_of("tenants", tenant, "api-keys")
