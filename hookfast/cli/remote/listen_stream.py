"""The event stream as a client sees it: messages, over as many connections as it takes. Each new
connection goes on behind the last message that was read."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx2
import typer

from hookfast.cli.remote.client import Api, NotHookfast, Refused, Unreachable, reason
from hookfast.cli.remote.times import ago
from hookfast.errors import Misconfigured

SILENCE_SECONDS = 45.0
"""A connection that says nothing for so long is dead: there is a heartbeat every 15 s."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_MEDIA_TYPE = "text/event-stream"

Query: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the stream: `name` is `event` or `gap`, `cursor` is where to go on behind it."""

    name: str
    cursor: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Connected:
    """There is a connection; what follows comes over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The connection is over, and why; the next try is in `pause` seconds."""

    why: str
    pause: float


Happening: TypeAlias = "Message | Connected | Lost"


class Events:
    """Server-Sent Events from bytes (WHATWG HTML, section 9.2.6), as far as this stream uses them.
    By bytes: a JSON text may hold what str.splitlines takes for the end of a line. `last_id` also
    moves with messages that carry nothing else."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._id = last_id
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[Message]:
        """The messages that are complete now."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        for line in lines:
            yield from self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))

    def _line(self, line: str) -> Iterator[Message]:
        if not line:
            # only now: one that is cut off before its end has to come again
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


async def follow(api: Api, query: Query, *, after: str | None) -> AsyncIterator[Happening]:
    """Whatever happens on the stream, for ever. `after` is a cursor or the id of an event; without
    one `query` may say where to begin.

    Raises Refused when the API does not want to (a key that is over, input that is wrong), and
    Unreachable or NotHookfast when it was never there: then the URL is more likely wrong than the
    service away.
    """
    pause = _FIRST_PAUSE
    last_id, was_there = after, False
    async with api.streaming(silence_seconds=SILENCE_SECONDS) as client:
        while True:
            events = Events(last_id)
            asked_at_least = 0.0
            try:
                async with client.stream(
                    "GET", "/stream", params=_params(query, last_id), headers=_headers(last_id)
                ) as answer:
                    if answer.status_code != httpx2.codes.OK:
                        await answer.aread()
                        api.check(answer)
                    if not _is_stream(answer):
                        raise NotHookfast(
                            f"{api.url} answered, and not with a stream of events. "
                            "Is HOOKFAST_URL right?"
                        )
                    yield Connected()
                    was_there = True
                    async for received in answer.aiter_bytes():
                        pause = _FIRST_PAUSE
                        for message in events.feed(received):
                            yield message
                    why = "the service ended it"
            except (Unreachable, NotHookfast) as error:  # a proxy, with nothing behind it
                if not was_there:
                    raise
                why = error.message
            except Refused as error:
                if not error.for_now:
                    raise
                why, asked_at_least = error.message, float(error.retry_after or 0)
            except httpx2.ConnectError as error:
                if not was_there:
                    raise Unreachable(
                        f"There is no Hookfast at {api.url} ({error}). Check HOOKFAST_URL, or "
                        "start it with `hookfast up`."
                    ) from None
                why = reason(error)
            except httpx2.TimeoutException:
                why = f"it was silent for {SILENCE_SECONDS:g} s"
            except httpx2.RemoteProtocolError:
                why = "the service broke it off"
            except httpx2.TransportError as error:
                why = reason(error)
            last_id = events.last_id
            # a jitter: those who lost the same service should not come back all at once
            wait = max(asked_at_least, pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE)
            yield Lost(why=why, pause=wait)
            await asyncio.sleep(wait)


def _is_stream(answer: httpx2.Response) -> bool:
    """Whether it is Server-Sent Events, and not the page of a proxy or of another server."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() == _MEDIA_TYPE


def _params(query: Query, last_id: str | None) -> Query:
    # where to begin is said once; from then on by the last id
    return query if last_id is None else tuple(pair for pair in query if pair[0] != "since")


def _headers(last_id: str | None) -> dict[str, str]:
    headers = {"Accept": _MEDIA_TYPE, "Cache-Control": "no-store"}
    return headers if last_id is None else {**headers, "Last-Event-ID": last_id}


_CURSOR = re.compile(r"[A-Za-z0-9_-]{8,120}", re.ASCII)


@dataclass(slots=True)
class Place:
    """A cursor or an event's id to begin behind, or a time to begin at; neither is now."""

    url: str
    file: Path | None = None
    cursor: str | None = None
    since: str | None = None

    @classmethod
    def found(cls, file: Path | None, *, url: str, since: str | None) -> Self:
        """Where the file says; where there is none yet, where `since` says (`5m`, a time, a cursor,
        an event's id). Raises Misconfigured for a file of another service, or that is none, and
        for one that cannot be written: before an event is done with that would not be noted."""
        if file is not None:
            _check_writable(file)
        if file is not None and file.exists():
            return cls(url=url, file=file, cursor=_stored(file, url))
        if since is None:
            place = cls(url=url, file=file)
        elif _is_time(since):
            place = cls(url=url, file=file, since=ago(since))
        elif _CURSOR.fullmatch(since):
            place = cls(url=url, file=file, cursor=since)
        else:
            raise typer.BadParameter(
                f"{since!r} is neither a length of time such as 5m, an RFC 3339 time, an event's "
                "id, nor a cursor",
                param_hint="--since",
            )
        return place

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """What the stream is asked for besides."""
        return () if self.since is None else (("since", self.since),)

    def reached(self, cursor: str) -> None:
        """Everything up to there is done with. A crash while this is written leaves the old file:
        an event may come again, and none is left out."""
        if self.file is None:
            return
        partial = _partial(self.file)
        try:
            partial.write_text(json.dumps({"url": self.url, "cursor": cursor}))
            partial.replace(self.file)
        except OSError as error:
            raise _unwritable(self.file, error) from None


def _check_writable(file: Path) -> None:
    partial = _partial(file)
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _unwritable(file, error) from None


def _partial(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}")


def _unwritable(file: Path, error: OSError) -> Misconfigured:
    return Misconfigured(f"{file} cannot be written: {error.strerror}")


def _stored(file: Path, url: str) -> str:
    stored: object = None
    with suppress(OSError, ValueError):
        stored = json.loads(file.read_text())
    match stored:
        case {"url": str(other), "cursor": str(cursor)}:
            if other != url:
                raise Misconfigured(f"{file} is of {other}; listening to {url} needs another file")
            return cursor
        case _:
            raise Misconfigured(f"{file} is no file that `listen --resume` wrote")


def _is_time(text: str) -> bool:
    if text.startswith("evt_"):
        return False
    with suppress(typer.BadParameter):
        ago(text)
        return True
    return False
