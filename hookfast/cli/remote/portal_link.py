"""`hookfast portal-link`: a link to the portal, for somebody without an API key."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote


def portal_link_command(
    remote: Remote,
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="TENANT", help="Only what belongs to this tenant, by id or name."),
        IdOf("tenant"),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Only this endpoint and its deliveries, by id, name or URL.",
        ),
        IdOf("endpoint"),
    ] = None,
    valid_for: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long it is valid; at most 7d.")
    ] = "1h",
    may_act: Annotated[
        bool,
        typer.Option(
            "--may-act/--read-only", help="Whether it also allows pausing, resending, changing…"
        ),
    ] = False,
) -> None:
    """Create a link to the portal for somebody without an API key.

    Give TENANT or --endpoint. Revoking the API key that created the link also ends the link.
    """
    from hookfast.cli.remote.api import path_of
    from hookfast.cli.remote.screen import print_note
    from hookfast.cli.remote.times import format_time, parse_duration

    if tenant is None and endpoint is None:
        raise typer.BadParameter("give TENANT, --endpoint, or both")
    form: dict[str, Any] = {
        "scope": "tenant" if may_act else "tenant:read",
        "expires_in_seconds": int(parse_duration(valid_for).total_seconds()),
    }
    if endpoint is not None:
        form["endpoint_id"] = endpoint
    if tenant is None:
        tenant = remote.api.get(path_of("endpoints", endpoint or "")).value["tenant_id"]
    response = remote.api.post(path_of("tenants", tenant, "portal-links"), form)
    if remote.printed_json(response):
        return
    shown = (
        f"{remote.named('endpoint', endpoint)} and its deliveries"
        if endpoint
        else f"everything of {remote.named('tenant', tenant)}"
    )
    until = format_time(response.value["expires_at"])
    allows = "see and control" if may_act else "see"
    print_note(f"Anyone with this link can {allows} {shown}, until {until}:")
    typer.echo(response.value["url"])
