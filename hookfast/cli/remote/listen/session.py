"""`hookfast listen`: forward events to a server under development, without a public URL.

Events are forwarded in order, one at a time unless `--concurrency` says otherwise. An event is
finished once the server has answered, whatever the answer. While nothing listens at the URL, an
event is sent again until the server is up, and later events wait. So no event is skipped without a
line that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hookfast.cli.remote.api import Api
from hookfast.cli.remote.listen.forward import Forwarder, Outcome
from hookfast.cli.remote.listen.options import ListenOptions
from hookfast.cli.remote.listen.output import ListenOutput, Totals
from hookfast.cli.remote.listen.stream import (
    Message,
    StreamItem,
    StreamPosition,
    read_stream,
    stream_query,
)
from hookfast.cli.remote.remote import Remote
from hookfast.errors import Misconfigured
from hookfast.process import run_async
from hookfast.signing.signature import generate_secret, secret_key
from hookfast.supervisor.interrupt import interruptible

SECRET_VARIABLE = "HOOKFAST_LISTEN_SECRET"  # noqa: S105 - the variable's name, not a secret
_READ_AHEAD = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0


def listen(remote: Remote, options: ListenOptions) -> None:
    """Listen until Ctrl-C, then print the totals."""
    run_async(_listen_until_interrupted(remote, options))


async def _listen_until_interrupted(remote: Remote, options: ListenOptions) -> None:
    position = StreamPosition.load(options.resume, url=remote.api.url, since=options.since)
    output = ListenOutput(as_json=remote.as_json)
    forwarder = None
    if options.forward_to is not None:
        secret, is_own = _secret()
        forwarder = Forwarder(options.forward_to, secret=secret, allow_remote=options.allow_remote)
        output.listening(remote.api.url, options.forward_to, secret=None if is_own else secret)
    else:
        output.listening(remote.api.url, None, secret=None)
    listener = _Listener(remote.api, options, position, output, forwarder)
    failed = True
    try:
        async with interruptible():
            await listener.run()
        failed = False
    finally:
        if not failed or listener.totals.cursor is not None:
            output.totals(listener.totals, resume=options.resume)
        if forwarder is not None:
            await forwarder.aclose()


def _secret() -> tuple[str, bool]:
    """Return the secret that signs, and whether the developer has set it."""
    own = os.environ.get(SECRET_VARIABLE)
    if own is None:
        return generate_secret(), False
    try:
        secret_key(own)
    except Exception as error:
        raise Misconfigured(f"{SECRET_VARIABLE} is not a secret: {error}") from None
    return own, True


@dataclass(frozen=True, slots=True)
class _Handling:
    """An event that is being handled, and the task that returns its outcome."""

    message: Message
    outcome: asyncio.Task[Outcome | None]


@dataclass(slots=True)
class _Listener:
    api: Api
    options: ListenOptions
    position: StreamPosition
    output: ListenOutput
    forwarder: Forwarder | None
    totals: Totals = field(default_factory=Totals)
    _handling: deque[_Handling] = field(default_factory=deque)

    async def run(self) -> None:
        """Handle the items of the stream, one after the other, until cancelled. Raises what
        `read_stream` raises."""
        queue: asyncio.Queue[StreamItem] = asyncio.Queue(_READ_AHEAD)
        reading = asyncio.create_task(self._read(queue), name="listen-read")
        try:
            async for item in self._items(queue, reading):
                if not isinstance(item, Message):
                    self.output.connection(item)
                elif item.name == "gap":
                    await self._finish(0)
                    self.totals.gaps += 1
                    self.output.gap(item)
                    self._advance(item)
                elif item.name == "event":
                    await self._finish(self.options.concurrency - 1)
                    task = asyncio.create_task(self._handle(item))
                    self._handling.append(_Handling(item, task))
        finally:
            for task in (reading, *(one.outcome for one in self._handling)):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _read(self, queue: asyncio.Queue[StreamItem]) -> None:
        query = (*stream_query(self.options), *self.position.query)
        async for item in read_stream(self.api, query, after=self.position.cursor):
            await queue.put(item)  # waits while the queue is full, and so does the service

    async def _items(
        self, queue: asyncio.Queue[StreamItem], reading: asyncio.Task[None]
    ) -> AsyncIterator[StreamItem]:
        """Yield the items of the stream, and print finished events meanwhile. Raises what `reading`
        raises."""
        getting = asyncio.create_task(queue.get())
        try:
            while True:
                waited: set[asyncio.Task[Any]] = {getting, reading}
                if self._handling:
                    waited.add(self._handling[0].outcome)
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                while self._handling and self._handling[0].outcome.done():
                    self._finished(self._handling.popleft())
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
        """Wait until at most `most` events are being handled."""
        while len(self._handling) > most:
            await asyncio.wait([self._handling[0].outcome])
            self._finished(self._handling.popleft())

    def _finished(self, handled: _Handling) -> None:
        """Count and print a finished event. Called in the order of the stream, so that every event
        before the cursor is finished."""
        outcome = handled.outcome.result()
        self.totals.events += 1
        if outcome is not None:
            self.totals.accepted += outcome.accepted
            self.totals.failed += not outcome.accepted
        self.output.event(handled.message, outcome)
        self._advance(handled.message)

    def _advance(self, message: Message) -> None:
        self.totals.cursor = message.cursor
        self.position.advance(message.cursor)

    async def _handle(self, message: Message) -> Outcome | None:
        """Forward one event: again until the server is up, and up to `--retry` times after that."""
        if self.forwarder is None:
            return None
        attempt, pause = 1, _FIRST_PAUSE
        while True:
            outcome = await self.forwarder.send(message.data, attempt=attempt)
            if outcome.accepted or (not outcome.away and attempt > self.options.retry):
                return outcome
            self.output.retry(message, outcome, pause=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            attempt += not outcome.away  # the server has not seen it, so it was no attempt
