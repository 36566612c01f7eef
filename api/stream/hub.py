"""The live end of the feed: one reader per process, which wakes when an event is emitted and passes
new events to every stream that wants them.

A stream (`Follower`) first reads the events after its cursor by itself. It is registered before it
reads, so that events which become visible meanwhile are either in its read or passed to it;
duplicates are recognised by their position. A stream that cannot keep up drops the events passed to
it, and reads them from the database at its own pace. So the memory of each stream is bounded, and
none misses an event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError

from hookfast import byte_budget
from hookfast.byte_budget import Claim
from hookfast.clock import Clock, utc_now
from hookfast.outage_log import DATABASE
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import AnyOf, FeedEvent, FeedFilter, FeedPage

_IDLE_SECONDS = 1.0  # reads the feed this often, in case the doorbell fails
_HELD_BACK_SECONDS = 0.05  # typical duration of a transaction that holds back later events
_GATHER_SECONDS = 0.02  # events emitted within this time are read together
_PAGE = 200
_QUEUED_EVENTS = 400
_QUEUED_BYTES = 2 * 1024 * 1024
_POLLS = 4  # polls that may read a page at once
_READERS = 2  # streams that may read by themselves at once: SQLite has four connections in total

log = structlog.get_logger()


class StreamHub:
    """Passes new events to the streams of this process. It reads only while there are streams."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        self._followers: set[Follower] = set()
        self._tail: Cursor | None = None
        self._reader: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(_READERS)
        self.polls = asyncio.Semaphore(_POLLS)
        """What a poll reads is not counted in the budget for bodies before it is there."""
        self._listens = self._closed = False

    @contextlib.asynccontextmanager
    async def following(
        self, chosen: FeedFilter, after: Cursor, *, memory: Claim
    ) -> AsyncIterator[Follower]:
        """Register a stream that wants these events, from after this cursor. `memory` holds the
        bodies of the events that it was given last and of those that wait for it."""
        follower = Follower(self, chosen, after, memory=memory)
        self._followers.add(follower)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_on(), name="stream-hub")
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            memory.shrink(memory.size)

    async def close(self) -> None:
        """Stop reading."""
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def page(self, chosen: FeedFilter, after: Cursor, *, memory: Claim) -> FeedPage:
        """Read a page for one follower. Raises SQLAlchemyError and NoRoom."""
        async with self._readers, self._database.read() as connection:
            page = await feed.read(connection, chosen, after=after, limit=_PAGE, now=self._clock())
        # no reader waits for room: others may have some
        size = size_of(page.events)
        await memory.grow(size, within=byte_budget.SHORT_WAIT_SECONDS, loaded=True)
        return page

    def tail(self) -> Cursor | None:
        """Return the cursor up to which followers have been passed all events."""
        return self._tail

    async def _read_on(self) -> None:
        try:
            while self._followers and not self._closed:
                try:
                    pause = await self._round()
                except SQLAlchemyError as error:
                    DATABASE.failed(
                        "The streams wait for the database.", error=type(error).__name__
                    )
                    pause = _IDLE_SECONDS
                except Exception as error:  # our own error must not stop the streams
                    log.error("Reading the feed failed, and continues.", exc_info=error)
                    pause = _IDLE_SECONDS
                if pause:
                    await asyncio.sleep(_GATHER_SECONDS)
                    await self._doorbell.wait(pause)
        finally:
            self._reader = self._tail = None

    async def _round(self) -> float:
        """Read one page and pass it on. Return how many seconds to wait for the doorbell then."""
        if not self._listens:
            await self._doorbell.listen()
            self._listens = True
        listening = frozenset(self._followers)
        if self._tail is None:
            async with self._database.read() as connection:
                self._tail = await feed.end_cursor(connection, now=self._clock())
            for follower in self._followers:
                follower.fall_behind()  # each reads older events by itself
            return _IDLE_SECONDS
        chosen = AnyOf(tuple(follower.chosen for follower in listening))
        async with self._database.read() as connection:
            page = await feed.read(
                connection, chosen, after=self._tail, limit=_PAGE, now=self._clock()
            )
        self._tail = page.cursor
        for follower in self._followers:
            if follower in listening:
                follower.offer(page.events)
            else:
                # It was registered during the read, which may lack events that it wants.
                follower.fall_behind()
        if page.more:
            return 0.0
        return _HELD_BACK_SECONDS if page.held_back else _IDLE_SECONDS


class Follower:
    """One stream's position in the feed. `cursor` follows the events that `next` returned last."""

    def __init__(self, hub: StreamHub, chosen: FeedFilter, after: Cursor, *, memory: Claim) -> None:
        self.chosen = chosen
        self.cursor = after
        self._hub = hub
        self._memory = memory
        self._queue: deque[FeedEvent] = deque()
        self._queued_bytes = 0
        self._behind = True
        self._woken = asyncio.Event()

    async def next(self, timeout: float) -> Sequence[FeedEvent]:
        """Return the next events; none if there were none for `timeout` seconds. The memory of
        those before them is free then. Raises SQLAlchemyError, after which it can be called again,
        and NoRoom."""
        self._memory.shrink(self._memory.size - self._queued_bytes)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            if self._behind:
                # before the read: events that the hub drops from here on are in a later page
                self._behind = False
                try:
                    page = await self._hub.page(self.chosen, self.cursor, memory=self._memory)
                except BaseException:
                    self._behind = True
                    raise
                self._behind = self._behind or page.more
                self.cursor = page.cursor
                if page.events or loop.time() > until:
                    return page.events
                continue
            if events := self._take():
                self.cursor = events[-1].cursor
                return events
            if self._behind:
                continue
            self._woken.clear()
            try:
                # not wait_for, which in Python 3.11 can swallow a cancellation
                async with asyncio.timeout_at(until):
                    await self._woken.wait()
            except TimeoutError:
                self._advance()
                return ()

    def offer(self, events: Sequence[FeedEvent]) -> None:
        """Queue those of the hub's events that the stream wants."""
        for event in events:
            if not self.chosen.matches_event(event):
                continue
            size = len(event.body)
            if (
                len(self._queue) == _QUEUED_EVENTS
                or self._queued_bytes + size > _QUEUED_BYTES
                or not self._memory.take(size)
            ):
                self.fall_behind()
                return
            self._queue.append(event)
            self._queued_bytes += size
        if self._queue:
            self._woken.set()

    def fall_behind(self) -> None:
        """Drop the queued events, and read them from the database."""
        self._clear()
        self._behind = True
        self._woken.set()

    def _take(self) -> list[FeedEvent]:
        seen = self.cursor
        events = [event for event in self._queue if not seen.covers(event.position, event.id)]
        self._memory.shrink(self._queued_bytes - size_of(events))
        self._queue.clear()
        self._queued_bytes = 0
        return events

    def _clear(self) -> None:
        self._memory.shrink(self._queued_bytes)
        self._queue.clear()
        self._queued_bytes = 0

    def _advance(self) -> None:
        """Move the cursor past unwanted events, so that a reconnecting client skips them."""
        tail = self._hub.tail()
        if tail is not None and not self._queue and not self._behind and self.cursor < tail:
            self.cursor = tail


def size_of(events: Sequence[FeedEvent]) -> int:
    """Return the bytes of the events' bodies together."""
    return sum(len(event.body) for event in events)
