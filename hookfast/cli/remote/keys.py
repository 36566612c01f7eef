"""`hookfast keys`: API keys of the operator and of tenants."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import Limit, RevokedKey
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_note
from hookfast.cli.remote.times import format_distance, parse_future

app = typer.Typer()

Tenant = Annotated[
    str | None,
    typer.Option(metavar="TENANT", help="Of this tenant, by id or name; default: the operator's."),
    IdOf("tenant"),
]


@command(app, "list")
def list_keys(remote: Remote, tenant: Tenant = None, limit: Limit = 50) -> None:
    """List API keys, newest first."""
    remote.print_list(
        _path(tenant),
        {},
        {
            "id": Column(value="id", priority=0),
            "hint": Column(value="hint", priority=4),
            "scope": "scope",
            "name": Column(value="name", least=12),
            "created": Column(value=lambda row: format_distance(row["created_at"]), priority=5),
            "last used": Column(value=lambda row: format_distance(row["last_used_at"]), priority=2),
            "expires": Column(value=lambda row: format_distance(row["expires_at"]), priority=3),
        },
        limit=limit,
        if_empty="There are no API keys.",
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
    """Create an API key and print it, the only time it is shown."""
    form = {"name": name, "scope": scope}
    if expires is not None:
        form["expires_at"] = parse_future(expires)
    response = remote.api.post(_path(tenant), form)
    if not remote.printed_json(response):
        key = response.value
        print_note(f"{key['id']}, scope {key['scope']}. The key is shown only once:")
        typer.echo(key["key"])


@command(app, "revoke")
def revoke(remote: Remote, key_id: RevokedKey, tenant: Tenant = None) -> None:
    """Make an API key stop working."""
    remote.api.delete(path_of("api-keys", key_id))
    print_note(f"{key_id} is revoked.")


def _path(tenant: str | None) -> str:
    return "/api-keys" if tenant is None else path_of("tenants", tenant, "api-keys")
