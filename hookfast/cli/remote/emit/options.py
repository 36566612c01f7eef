"""The options of `hookfast emit`, declared without importing its code, for `--help`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.id_of import IdOf


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitOptions:
    """The arguments and options of `hookfast emit`."""

    event_type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")
    ] = None
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Its data as JSON; - reads it.")
    ] = None
    data_file: Annotated[
        Path | None, typer.Option(allow_dash=True, help="File with its data as JSON.")
    ] = None
    tenant: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT", help="Only for this tenant, by id or name; default: for all."
        ),
        IdOf("tenant"),
    ] = None
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Makes it safe to repeat. The event on line N of a batch has the key KEY:N.",
        ),
    ] = None
    deliver_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When to deliver it: 2h, 3d, or RFC 3339.")
    ] = None
    ordering_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Where deliveries are ordered: after others with this key."
        ),
    ] = None
    batch: Annotated[
        Path | None,
        typer.Option(
            allow_dash=True,
            help="File with an event per line, as POST /v1/events accepts it; - reads standard "
            "input.",
        ),
    ] = None
    from_line: Annotated[
        int, number_option(kind=int, least=1, help="First line of the batch to emit.")
    ] = 1
