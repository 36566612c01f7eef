"""`hookfast listen`: events to a server under development, without a public URL.

In order, one at a time unless told otherwise. An event is done with once it was answered, whatever
the answer; one that nobody was there to take is tried until somebody is, and the others wait. So
nothing is left out without a line that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hookfast.cli.remote.client import Api
from hookfast.cli.remote.listen_forward import Forwarder, Outcome
from hookfast.cli.remote.listen_output import Show
from hookfast.cli.remote.listen_stream import Happening, Message, Place, Query, follow
from hookfast.cli.remote.remote import Remote
from hookfast.errors import Misconfigured
from hookfast.signing.signature import generate_secret, secret_key
from hookfast.supervisor.interrupt import interruptible

SECRET_VARIABLE = "HOOKFAST_LISTEN_SECRET"  # noqa: S105 - where it is, not what it is
_READ_AHEAD = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """What to listen for and what to do with it. `forward_to` None only shows the events;
    `retries` is how often an event is sent again that was answered badly or not at all."""

    forward_to: str | None
    allow_remote: bool = False
    tenant: str | None = None
    source: str | None = None
    events: tuple[str, ...] = ()
    payload: str = "full"
    since: str | None = None
    resume: Path | None = None
    retries: int = 0
    concurrency: int = 1

    @property
    def query(self) -> Query:
        """What the stream is asked for."""
        named = (("tenant_id", self.tenant), ("source_id", self.source), ("payload", self.payload))
        given = tuple((name, value) for name, value in named if value is not None)
        return (*given, *(("events", pattern) for pattern in self.events))


@dataclass(slots=True)
class Tally:
    """What came of everything so far."""

    events: int = 0
    accepted: int = 0
    failed: int = 0
    gaps: int = 0
    cursor: str | None = None


def listen(remote: Remote, options: ListenOptions) -> None:
    """Listen until Ctrl-C, and then say what came of it."""
    asyncio.run(_until_interrupted(remote, options))


async def _until_interrupted(remote: Remote, options: ListenOptions) -> None:
    place = Place.found(options.resume, url=remote.api.url, since=options.since)
    show = Show(as_json=remote.as_json)
    forwarder = None
    if options.forward_to is not None:
        secret, is_own = _secret()
        forwarder = Forwarder(options.forward_to, secret=secret, allow_remote=options.allow_remote)
        show.listening(remote.api.url, options.forward_to, secret=None if is_own else secret)
    else:
        show.listening(remote.api.url, None, secret=None)
    listener = _Listener(remote.api, options, place, show, forwarder)
    failed = True
    try:
        async with interruptible():
            await listener.run()
        failed = False
    finally:
        if not failed or listener.tally.cursor is not None:
            show.sum(listener.tally, resume=options.resume)
        if forwarder is not None:
            await forwarder.aclose()


def _secret() -> tuple[str, bool]:
    """The secret that signs, and whether it is the developer's own."""
    own = os.environ.get(SECRET_VARIABLE)
    if own is None:
        return generate_secret(), False
    try:
        secret_key(own)
    except Exception as error:
        raise Misconfigured(f"{SECRET_VARIABLE} is no secret: {error}") from None
    return own, True


@dataclass(frozen=True, slots=True)
class _Handled:
    """An event on its way, and what comes of it."""

    message: Message
    outcome: asyncio.Task[Outcome | None]


@dataclass(slots=True)
class _Listener:
    api: Api
    options: ListenOptions
    place: Place
    show: Show
    forwarder: Forwarder | None
    tally: Tally = field(default_factory=Tally)
    _under_way: deque[_Handled] = field(default_factory=deque)

    async def run(self) -> None:
        """Take what happens on the stream, one after the other, until cancelled. Raises what
        `follow` does."""
        queue: asyncio.Queue[Happening] = asyncio.Queue(_READ_AHEAD)
        reading = asyncio.create_task(self._read(queue), name="listen-read")
        try:
            async for happening in self._happenings(queue, reading):
                if not isinstance(happening, Message):
                    self.show.connection(happening)
                elif happening.name == "gap":
                    await self._finish(0)
                    self.tally.gaps += 1
                    self.show.gap(happening)
                    self._reached(happening)
                elif happening.name == "event":
                    await self._finish(self.options.concurrency - 1)
                    task = asyncio.create_task(self._handle(happening))
                    self._under_way.append(_Handled(happening, task))
        finally:
            for task in (reading, *(one.outcome for one in self._under_way)):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _read(self, queue: asyncio.Queue[Happening]) -> None:
        query = (*self.options.query, *self.place.query)
        async for happening in follow(self.api, query, after=self.place.cursor):
            await queue.put(happening)  # full: the stream waits for us, and so does the service

    async def _happenings(
        self, queue: asyncio.Queue[Happening], reading: asyncio.Task[None]
    ) -> AsyncIterator[Happening]:
        """What comes from the stream; meanwhile tells of what is done. Raises what reading does."""
        getting = asyncio.create_task(queue.get())
        try:
            while True:
                waited: set[asyncio.Task[Any]] = {getting, reading}
                if self._under_way:
                    waited.add(self._under_way[0].outcome)
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                while self._under_way and self._under_way[0].outcome.done():
                    self._done(self._under_way.popleft())
                if getting.done():
                    yield getting.result()
                    getting = asyncio.create_task(queue.get())
                elif reading.done():
                    await self._finish(0)
                    reading.result()
                    return
        finally:
            getting.cancel()

    async def _finish(self, most: int) -> None:
        """Wait until at most so many events are under way."""
        while len(self._under_way) > most:
            await asyncio.wait([self._under_way[0].outcome])
            self._done(self._under_way.popleft())

    def _done(self, handled: _Handled) -> None:
        # In the order of the stream: what is behind the cursor is done with.
        outcome = handled.outcome.result()
        self.tally.events += 1
        if outcome is not None:
            self.tally.accepted += outcome.accepted
            self.tally.failed += not outcome.accepted
        self.show.event(handled.message, outcome)
        self._reached(handled.message)

    def _reached(self, message: Message) -> None:
        self.tally.cursor = message.cursor
        self.place.reached(message.cursor)

    async def _handle(self, message: Message) -> Outcome | None:
        """Forward one event, again and again where nobody is there, or as often as was asked."""
        if self.forwarder is None:
            return None
        attempt, pause = 1, _FIRST_PAUSE
        while True:
            outcome = await self.forwarder.send(message.data, attempt=attempt)
            if outcome.accepted or (not outcome.away and attempt > self.options.retries):
                return outcome
            self.show.again(message, outcome, pause=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            attempt += not outcome.away  # what nobody saw was no attempt
