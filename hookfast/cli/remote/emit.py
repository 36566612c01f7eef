"""`hookfast emit TYPE DATA`: one event."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from hookfast.cli.remote.client import Answer
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import counted
from hookfast.cli.remote.times import ahead
from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import parse


def emit(
    remote: Remote,
    event_type: str,
    *,
    data: str | None,
    data_file: Path | None,
    tenant: str | None,
    key: str | None,
    deliver_at: str | None,
) -> None:
    """Emit it and say what became of it."""
    text = _data(data, data_file)
    members = {"type": event_type}
    if tenant is not None:
        members["tenant_id"] = tenant
    if deliver_at is not None:
        members["deliver_at"] = ahead(deliver_at)
    # the data as they were given: they are delivered byte for byte as they are sent
    body = json.dumps(members).encode()[:-1] + b', "data": ' + text + b"}"
    headers = {} if key is None else {"Idempotency-Key": header_value(key)}
    answer = remote.api.post("/events", body, headers=headers)
    if remote.as_json:
        remote.print_json(answer)
    else:
        typer.echo(_sentence(answer))


def header_value(key: str) -> str:
    """`key`, where a header can carry it. Raises typer.BadParameter."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise typer.BadParameter("an idempotency key is visible ASCII, without spaces")
    return key


def _data(data: str | None, data_file: Path | None) -> bytes:
    """The event's data. Raises typer.BadParameter where they are not JSON."""
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
        raise typer.BadParameter(f"the data are not JSON: {fault_of(error)}") from None
    return text


def fault_of(error: InvalidInput) -> str:
    """What is wrong with a JSON text that was given here: what the API says of a whole body."""
    return error.message.removeprefix("the body is not JSON: ").replace("the body", "it", 1)


def _sentence(answer: Answer) -> str:
    event = answer.value
    sentence = f"{event['id']}: {event['type']}, {counted(event['deliveries'], 'delivery')}"
    if answer.headers.get("Idempotent-Replayed") == "true":
        sentence += "; it was emitted before with this idempotency key"
    return f"{sentence}."
