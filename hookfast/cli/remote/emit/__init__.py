"""`hookfast emit`: emit an event, or a file of events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote


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


def emit_command(options: EmitOptions, remote: Remote) -> None:
    """Emit an event, or a file of events.

    If it succeeds, the events and their deliveries are committed.
    """
    if options.batch is not None:
        one_event = (
            *(options.event_type, options.data, options.data_file),
            *(options.tenant, options.deliver_at),
        )
        if any(given is not None for given in one_event):
            raise typer.BadParameter(
                "use it alone: each line of the file has its event's type, tenant_id and data",
                param_hint="--batch",
            )
        from hookfast.cli.remote.emit.batch import emit_batch

        key, from_line = options.idempotency_key, options.from_line
        emit_batch(remote, options.batch, key=key, from_line=from_line)
        return
    if options.event_type is None or (options.data is None) == (options.data_file is None):
        raise typer.BadParameter("give TYPE and DATA, or TYPE and --data-file, or --batch")
    from hookfast.cli.remote.emit.event import emit

    emit(remote, options.event_type, options)
