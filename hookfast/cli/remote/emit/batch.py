"""`hookfast emit --batch FILE`: emit a file with an event per line, up to 1000 in a request.

The idempotency key of an event is the run's key and its line. So a request without a response can
be sent again, and a run that stopped can be continued, without emitting an event twice.
"""

from __future__ import annotations

import io
import json
import secrets
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import typer
from rich.progress import DownloadColumn, TimeRemainingColumn

from hookfast.cli.remote.api import ApiResponse, problem_sentences
from hookfast.cli.remote.emit.event import checked_idempotency_key
from hookfast.cli.remote.options import json_fault
from hookfast.cli.remote.progress import progress_bar, text_column
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import INTERRUPTED, print_note
from hookfast.errors import HookfastError, InvalidInput
from hookfast.plural import pluralize
from hookfast.strict_json.parser import parse
from hookfast_client import ApiError, call
from hookfast_client.batch import MAX_BYTES, MAX_EVENTS

_MAX_SHOWN_REJECTIONS = 20


class BatchStopped(HookfastError):
    """Not every event was emitted. The message says how many were, why it stopped, and how to
    continue."""

    code = "batch_stopped"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The events of one request as text, the line of each, and the bytes of the file that were read
    up to the end of the last one."""

    events: list[bytes]
    lines: list[int]
    read_bytes: int


def emit_batch(remote: Remote, file: Path, *, key: str | None, from_line: int) -> None:
    """Emit the events of `file`, beginning at `from_line`. Raises BatchStopped after the first
    request with an event that the API rejected."""
    run_key = checked_idempotency_key(key) if key is not None else f"batch-{secrets.token_hex(8)}"
    emitted = replayed = 0
    next_line = from_line
    columns = (DownloadColumn(), text_column("counts"), TimeRemainingColumn())
    with _opened(file) as stream, progress_bar(*columns) as bar:
        task = bar.add_task("emitting", total=_size(stream), counts="")
        try:
            for chunk in chunks(stream, key=run_key, from_line=from_line):
                response = _send(remote, chunk)
                remote.printed_json(response)
                items = response.value["data"]
                emitted += response.value["accepted"]
                replayed += sum(item.get("replayed", False) for item in items)
                bar.update(task, completed=chunk.read_bytes, counts=pluralize(emitted, "event"))
                if rejected := _rejected(chunk, items):
                    next_line = rejected[0][0]
                    raise HookfastError(_rejected_lines(rejected))
                next_line = chunk.lines[-1] + 1
        except (HookfastError, KeyboardInterrupt) as error:
            command = ("hookfast", "emit", "--batch", str(file), "--idempotency-key", run_key)
            how_to_continue = (
                f"Stopped after {pluralize(emitted, 'event')}. To continue (no event is emitted "
                f"twice):\n  {shlex.join(command)} --from-line {next_line}"
            )
            if isinstance(error, KeyboardInterrupt):
                bar.stop()
                print_note(how_to_continue)
                raise typer.Exit(INTERRUPTED) from None
            raise BatchStopped(f"{error.message}\n{how_to_continue}") from None
    if not remote.as_json:
        before = f", {replayed:,} of them before" if replayed else ""
        typer.echo(f"{pluralize(emitted, 'event')} emitted{before}.")


def chunks(stream: BinaryIO, *, key: str, from_line: int) -> Iterator[Chunk]:
    """Yield the events of the stream in chunks, one per request. Raises HookfastError at a line
    that is not an event."""
    events: list[bytes] = []
    lines: list[int] = []
    size = read = 0
    for number, line in enumerate(stream, start=1):
        text = line.strip()
        if number >= from_line and text:
            try:
                event = _with_key(text, number=number, key=key)
            except HookfastError:
                if events:  # the events before it are sent first
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
    """Return the event on one line, with an idempotency key if it has none. The rest of its text is
    unchanged, because the data is delivered byte for byte."""
    try:
        # by the API's own rules: it would reject the whole request, and could not say which line
        # is wrong
        event = parse(text)
    except InvalidInput as error:
        why = json_fault(error).replace(" at line 1, column ", " at column ", 1)
        raise HookfastError(f"Line {number} is not JSON: {why}.") from None
    if not isinstance(event, dict) or not event:
        raise HookfastError(f"Line {number} is not an event: it must be a JSON object.")
    if "idempotency_key" in event:
        return text
    return b'{"idempotency_key": ' + json.dumps(f"{key}:{number}").encode() + b", " + text[1:]


def _send(remote: Remote, chunk: Chunk) -> ApiResponse:
    """POST the chunk, again after temporary errors, which the idempotency keys make safe."""
    return remote.api.repeating().send(call.emit_batch(chunk.events))


def _rejected(chunk: Chunk, items: list[dict[str, Any]]) -> list[tuple[int, ApiError]]:
    """Return the numbers of the lines that the API rejected, each with its problem."""
    return [
        (number, ApiError.from_problem(item["problem"], status=item["status"]))
        for number, item in zip(chunk.lines, items, strict=True)
        if "problem" in item
    ]


def _rejected_lines(rejected: list[tuple[int, ApiError]]) -> str:
    sentences = [
        f"Line {number}: {problem_sentences(problem)}"
        for number, problem in rejected[:_MAX_SHOWN_REJECTIONS]
    ]
    if (more := len(rejected) - _MAX_SHOWN_REJECTIONS) > 0:
        sentences.append(f"And {pluralize(more, 'line')} more.")
    return "\n".join(sentences)


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
    """Return the size of the file in bytes; None if it cannot be known."""
    try:
        if stream.seekable():
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            return size
    except OSError:
        pass
    return None
