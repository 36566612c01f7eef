"""`hookfast figures`: deliveries and attempts over time."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote


def figures_command(
    remote: Remote,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="From: 2h, 3d, or RFC 3339; default: 24h. The first step contains this time.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to this time; default: now.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="1m, 5m, 30m, 1h, 6h, 1d…; default: about 30 steps."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Only this tenant's, by id or name."),
        IdOf("tenant"),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="ENDPOINT", help="Only this endpoint's, by id, name or URL."),
        IdOf("endpoint"),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Group by result, status or type instead of time."),
    ] = None,
) -> None:
    """Show deliveries, attempts and how long they took, over time.

    Attempts count when they began, deliveries when they were accepted and when they ended.
    """
    from hookfast.cli.remote.figures.report import print_figures
    from hookfast.cli.remote.times import parse_past

    query = {
        "since": since and parse_past(since),
        "until": until and parse_past(until),
        "step": step,
        "tenant_id": tenant,
        "endpoint_id": endpoint,
        "by": by,
    }
    response = remote.api.get("/figures", query)
    if not remote.printed_json(response):
        print_figures(remote, response.value)
