"""`hookfast emit`: emit an event, or a file of events."""

from __future__ import annotations

import typer

from hookfast.cli.remote.emit.options import EmitOptions
from hookfast.cli.remote.remote import Remote


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
