"""`hookfast emit --batch FILE`: a file with an event per line, up to 1000 in a request.

Every event has an idempotency key made of the run's key and its line, so that a request whose
answer got lost is sent again, and a run that stopped is taken up again, without a second event.
"""

from __future__ import annotations

import io
import json
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from hookfast.cli.remote.client import (
    Answer,
    Refused,
    Unreachable,
    field_errors,
    problem_sentences,
)
from hookfast.cli.remote.emit import fault_of, header_value
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import INTERRUPTED, counted, say
from hookfast.errors import HookfastError, InvalidInput
from hookfast.strict_json.parser import parse

MAX_EVENTS = 1_000
"""Events in one request; the API takes no more."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of one request, a quarter of what the API takes by default; one event may be larger."""
_TRIES = 6
_MOST_REFUSALS_TOLD = 20


class BatchStopped(HookfastError):
    """Not every event was emitted. The message says which were, why, and how to go on."""

    code = "batch_stopped"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one request sends: events as text, each with the number of its line, and how far in the
    file the last of them ends."""

    events: list[bytes]
    lines: list[int]
    read_bytes: int


def emit_batch(remote: Remote, file: Path, *, key: str | None, from_line: int) -> None:
    """Emit the events of `file`, from `from_line` on. Stops, with a BatchStopped, after the first
    request of which an event was refused."""
    run_key = header_value(key) if key is not None else f"batch-{secrets.token_hex(8)}"
    emitted = replayed = 0
    next_line = from_line
    with _opened(file) as stream, _bar() as bar:
        task = bar.add_task("emitting", total=_size(stream), counts="")
        try:
            for chunk in chunks(stream, key=run_key, from_line=from_line):
                answer = _send(remote, chunk)
                if remote.as_json:
                    remote.print_json(answer)
                emitted += answer.value["accepted"]
                replayed += sum(item.get("replayed", False) for item in answer.value["data"])
                bar.update(task, completed=chunk.read_bytes, counts=counted(emitted, "event"))
                if refused := _refused(chunk, answer.value["data"]):
                    next_line = refused[0][0]
                    raise HookfastError(_told(refused))
                next_line = chunk.lines[-1] + 1
        except (HookfastError, KeyboardInterrupt) as error:
            command = ("hookfast", "emit", "--batch", str(file), "--idempotency-key", run_key)
            again = shlex.join(command)
            how_to_go_on = (
                f"Stopped after {counted(emitted, 'event')}. To go on (what was emitted is not "
                f"emitted again):\n  {again} --from-line {next_line}"
            )
            if isinstance(error, KeyboardInterrupt):
                bar.stop()
                say(how_to_go_on)
                raise typer.Exit(INTERRUPTED) from None
            raise BatchStopped(f"{error.message}\n{how_to_go_on}") from None
    if not remote.as_json:
        before = f", {replayed:,} of them before" if replayed else ""
        typer.echo(f"{counted(emitted, 'event')} emitted{before}.")


def chunks(stream: BinaryIO, *, key: str, from_line: int) -> Iterator[Chunk]:
    """The events of the stream, in requests. Raises HookfastError at a line that is no event."""
    events: list[bytes] = []
    lines: list[int] = []
    size = read = 0
    for number, line in enumerate(stream, start=1):
        text = line.strip()
        if number >= from_line and text:
            try:
                event = _with_key(text, number=number, key=key)
            except HookfastError:
                if events:  # what came before it is sent first
                    yield Chunk(events, lines, read)
                raise
            if events and (len(events) == MAX_EVENTS or size + len(event) > MAX_BYTES):
                yield Chunk(events, lines, read)
                events, lines, size = [], [], 0
            events.append(event)
            lines.append(number)
            size += len(event)
        read += len(line)
    if events:
        yield Chunk(events, lines, read)


def _with_key(text: bytes, *, number: int, key: str) -> bytes:
    """The event on one line, with an idempotency key where it has none. Its text stays: the data in
    it are delivered byte for byte."""
    try:
        # by the API's own rules: what it refuses would cost the whole request, and it could not say
        # which line that was
        event = parse(text)
    except InvalidInput as error:
        why = fault_of(error).replace(" at line 1, column ", " at column ", 1)
        raise HookfastError(f"Line {number} is not JSON: {why}.") from None
    if not isinstance(event, dict) or not event:
        raise HookfastError(f"Line {number} is not an event: it must be a JSON object.")
    if "idempotency_key" in event:
        return text
    return b'{"idempotency_key": ' + json.dumps(f"{key}:{number}").encode() + b", " + text[1:]


def _send(remote: Remote, chunk: Chunk) -> Answer:
    """POST it. What fails for now is tried again, which the idempotency keys make safe."""
    body = b'{"events": [' + b", ".join(chunk.events) + b"]}"
    for attempt in range(_TRIES):
        try:
            return remote.api.post("/events/batch", body)
        except (Refused, Unreachable) as error:
            for_now = isinstance(error, Unreachable) or error.for_now
            if not for_now or attempt == _TRIES - 1:
                raise
            after = error.retry_after if isinstance(error, Refused) else None
            time.sleep(min(after or 2**attempt / 2, 30))
    raise AssertionError("the last try returns or raises")


def _refused(chunk: Chunk, items: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """The lines that were refused, each with its problem."""
    return [
        (number, item["problem"])
        for number, item in zip(chunk.lines, items, strict=True)
        if "problem" in item
    ]


def _told(refused: list[tuple[int, dict[str, Any]]]) -> str:
    told = [
        f"Line {number}: {problem_sentences(problem['detail'], field_errors(problem))}"
        for number, problem in refused[:_MOST_REFUSALS_TOLD]
    ]
    if len(refused) > _MOST_REFUSALS_TOLD:
        told.append(f"And {counted(len(refused) - _MOST_REFUSALS_TOLD, 'line')} more.")
    return "\n".join(told)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    with stream:
        yield stream


def _size(stream: BinaryIO) -> int | None:
    """Bytes of the file; None where that cannot be known."""
    try:
        if stream.seekable():
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            return size
    except OSError:
        pass
    return None


def _bar() -> Progress:
    console = Console(file=sys.stderr)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
