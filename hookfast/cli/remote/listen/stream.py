"""The event stream as a client reads it, over as many connections as it takes, and the position in
it, which `listen --resume` keeps in a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx2
import typer

from hookfast.cli.remote.api import Api, ApiProblem, NotHookfast, Unreachable, pause_after
from hookfast.cli.remote.listen.options import ListenOptions
from hookfast.cli.remote.times import parse_past
from hookfast.errors import HookfastError, Misconfigured
from hookfast_client.answer import error_text

SILENCE_SECONDS = 45.0
"""A connection without data for this long is dead: there is a heartbeat every 15 s."""
_MEDIA_TYPE = "text/event-stream"
_CURSOR = re.compile(r"[A-Za-z0-9_-]{8,120}", re.ASCII)

Query: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the stream: `name` is `event` or `gap`; reading continues after `cursor`."""

    name: str
    cursor: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection was made; the next messages come over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The connection was lost, and why; the next try is in `pause` seconds."""

    why: str
    pause: float


StreamItem: TypeAlias = "Message | Connected | Lost"


class EventParser:
    """A parser of Server-Sent Events (WHATWG HTML, section 9.2.6), as far as this stream uses them.
    It splits bytes, because JSON may contain characters that str.splitlines takes for the end of a
    line. `last_id` also advances with messages that have only an id."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._id = last_id
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        for line in lines:
            yield from self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))

    def _line(self, line: str) -> Iterator[Message]:
        if not line:
            # only now: a message that is cut off before its end has to come again
            self.last_id = self._id
            name, data = self._name, "\n".join(self._data)
            self._name, self._data = "", []
            if data:
                yield Message(name=name, cursor=self.last_id or "", data=json.loads(data))
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._id = value
            case "event":
                self._name = value
            case "data":
                self._data.append(value)


async def read_stream(api: Api, query: Query, *, after: str | None) -> AsyncIterator[StreamItem]:
    """Yield the items of the stream for ever. Each new connection continues after the last message
    that was read. `after` is a cursor or an event's id; without it, `query` may say where to begin.

    Raises ApiProblem when the API denies access or rejects the query, and Unreachable or
    NotHookfast when it never answered: then the URL is more likely wrong than the service away.
    """
    failures = 0
    last_id, was_connected = after, False
    async with api.streaming(silence_seconds=SILENCE_SECONDS) as client:
        while True:
            parser = EventParser(last_id)
            failure: HookfastError | None = None
            try:
                async with client.stream(
                    "GET", "/stream", params=_params(query, last_id), headers=_headers(last_id)
                ) as response:
                    if response.status_code != httpx2.codes.OK:
                        await response.aread()
                        api.check(response)
                    if not _is_stream(response):
                        raise NotHookfast(
                            f"{api.url} answered, and not with a stream of events. "
                            "Is HOOKFAST_URL right?"
                        )
                    yield Connected()
                    was_connected = True
                    async for received in response.aiter_bytes():
                        failures = 0
                        for message in parser.feed(received):
                            yield message
                    why = "the service ended it"
            except (Unreachable, NotHookfast) as error:  # a proxy without a service behind it
                if not was_connected:
                    raise
                why = error.message
            except ApiProblem as problem:
                failure, why = problem, problem.message
            except httpx2.ConnectError as error:
                if not was_connected:
                    raise Unreachable(
                        f"There is no Hookfast at {api.url} ({error}). Check HOOKFAST_URL, or "
                        "start it with `hookfast up`."
                    ) from None
                why = error_text(error)
            except httpx2.TimeoutException:
                why = f"no data came for {SILENCE_SECONDS:g} s"
            except httpx2.RemoteProtocolError:
                why = "the service broke it off"
            except httpx2.TransportError as error:
                why = error_text(error)
            last_id = parser.last_id
            pause = pause_after(failure, failures=failures)
            failures += 1
            yield Lost(why=why, pause=pause)
            await asyncio.sleep(pause)


def stream_query(options: ListenOptions) -> Query:
    """Return the query that selects what `listen` was asked for."""
    members = (
        ("tenant_id", options.tenant),
        ("source_id", options.source),
        ("payload", options.payload),
    )
    given = tuple((name, value) for name, value in members if value is not None)
    return (*given, *(("events", pattern) for pattern in options.events or ()))


def _is_stream(response: httpx2.Response) -> bool:
    """Whether these are Server-Sent Events, not the page of a proxy or of another server."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == _MEDIA_TYPE


def _params(query: Query, last_id: str | None) -> Query:
    # `since` is only for the beginning; later connections send the last id
    return query if last_id is None else tuple(pair for pair in query if pair[0] != "since")


def _headers(last_id: str | None) -> dict[str, str]:
    headers = {"Accept": _MEDIA_TYPE, "Cache-Control": "no-store"}
    return headers if last_id is None else {**headers, "Last-Event-ID": last_id}


@dataclass(slots=True)
class StreamPosition:
    """A position in the stream: after `cursor` (or an event's id), from the time `since`, or now if
    neither is set. `file`, if given, keeps it for the next run."""

    url: str
    file: Path | None = None
    cursor: str | None = None
    since: str | None = None

    @classmethod
    def load(cls, file: Path | None, *, url: str, since: str | None) -> Self:
        """Return the position in the file if it exists, otherwise the position that `since` names:
        `5m`, a time, a cursor or an event's id. Raises Misconfigured for a file of another service,
        with other content, or that cannot be written: that has to be known before an event is
        forwarded."""
        if file is not None:
            _check_writable(file)
            if file.exists():
                return cls(url=url, file=file, cursor=_read_cursor(file, url))
        if since is None:
            return cls(url=url, file=file)
        if _is_time(since):
            return cls(url=url, file=file, since=parse_past(since))
        if _CURSOR.fullmatch(since):
            return cls(url=url, file=file, cursor=since)
        raise typer.BadParameter(
            f"{since!r} is neither a duration such as 5m, an RFC 3339 time, an event's id, nor a "
            "cursor",
            param_hint="--since",
        )

    @property
    def query(self) -> Query:
        """The query parameters that begin at this position."""
        return () if self.since is None else (("since", self.since),)

    def advance(self, cursor: str) -> None:
        """Save that everything up to `cursor` is finished. A crash during the write leaves the old
        file: an event may come again, and none is skipped."""
        if self.file is None:
            return
        partial = _partial(self.file)
        try:
            partial.write_text(json.dumps({"url": self.url, "cursor": cursor}))
            partial.replace(self.file)
        except OSError as error:
            raise _cannot_write(self.file, error) from None


def _check_writable(file: Path) -> None:
    partial = _partial(file)
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _cannot_write(file, error) from None


def _partial(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}")


def _cannot_write(file: Path, error: OSError) -> Misconfigured:
    return Misconfigured(f"{file} cannot be written: {error.strerror}")


def _read_cursor(file: Path, url: str) -> str:
    content: object = None
    with suppress(OSError, ValueError):
        content = json.loads(file.read_text())
    match content:
        case {"url": str(other), "cursor": str(cursor)}:
            if other != url:
                raise Misconfigured(
                    f"{file} belongs to {other}; listening to {url} needs another file"
                )
            return cursor
        case _:
            raise Misconfigured(f"{file} was not written by `listen --resume`")


def _is_time(text: str) -> bool:
    if text.startswith("evt_"):
        return False
    with suppress(typer.BadParameter):
        parse_past(text)
        return True
    return False
