"""`hookfast emit TYPE DATA`: emit one event."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from hookfast.cli.remote.api import ApiResponse
from hookfast.cli.remote.emit.options import EmitOptions
from hookfast.cli.remote.options import json_fault
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.times import parse_future
from hookfast.errors import InvalidInput
from hookfast.plural import pluralize
from hookfast.strict_json.parser import parse
from hookfast_client import call


def emit(remote: Remote, event_type: str, options: EmitOptions) -> None:
    """Emit an event, and print its id and number of deliveries."""
    text = read_data(options.data, options.data_file)
    key = options.idempotency_key
    later = options.deliver_at
    event = call.encode_event(
        event_type,
        text,  # exactly as given, because it is delivered byte for byte as it is sent here
        tenant_id=options.tenant,
        deliver_at=None if later is None else parse_future(later),
        ordering_key=options.ordering_key,
    )
    response = remote.api.send(
        call.emit(event, idempotency_key=None if key is None else checked_idempotency_key(key))
    )
    if not remote.printed_json(response):
        typer.echo(_sentence(response))


def checked_idempotency_key(key: str) -> str:
    """Return the key if a header can carry it. Raises typer.BadParameter."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise typer.BadParameter("an idempotency key is visible ASCII, without spaces")
    return key


def read_data(data: str | None, data_file: Path | None = None) -> bytes:
    """Return the event's data. Raises typer.BadParameter if it is not JSON."""
    if data_file is None and data != "-":
        text = (data or "").encode(errors="surrogateescape")
    elif data_file is None or str(data_file) == "-":
        text = sys.stdin.buffer.read()
    else:
        try:
            text = data_file.read_bytes()
        except OSError as error:
            raise typer.BadParameter(f"{data_file}: {error.strerror}") from None
    try:
        parse(text)
    except InvalidInput as error:
        raise typer.BadParameter(f"the data is not JSON: {json_fault(error)}") from None
    return text


def _sentence(response: ApiResponse) -> str:
    event = response.value
    sentence = f"{event['id']}: {event['type']}, {pluralize(event['deliveries'], 'delivery')}"
    if response.headers.get("Idempotent-Replayed") == "true":
        sentence += "; it was emitted before with this idempotency key"
    return f"{sentence}."
