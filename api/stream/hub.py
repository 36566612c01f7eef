"""The live end of the feed: one reader per process, which wakes when something is emitted and hands
what it read to every stream that wants it.

A stream first reads by itself what lies behind its cursor (`Follower`). It is registered before it
reads, so that whatever becomes visible while it does is either in what it reads or handed to it;
what is both is recognised by its place. A stream that cannot keep up loses what it was handed, and
reads it from the database instead, at its own pace. So the memory of each is bounded, and none
misses anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence

import asyncpg
import structlog
from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock, utc_now
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import AnyOf, FeedEvent, FeedFilter, FeedPage

DATABASE_AWAY = (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""What reading the feed raises while the database is away."""

_IDLE_SECONDS = 1.0  # looks by itself this often, should the doorbell fail
_HELD_BACK_SECONDS = 0.05  # a transaction that holds back others lasts about so long
_BREATH_SECONDS = 0.02  # emits that come within this are read together
_PAGE = 200
_QUEUED_EVENTS = 400
_QUEUED_BYTES = 2 * 1024 * 1024
_READERS = 2  # streams that read by themselves at once: SQLite has four connections for all

log = structlog.get_logger()


class StreamHub:
    """One per process. Reads only while somebody follows."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        self._followers: set[Follower] = set()
        self._tail: Cursor | None = None
        self._reader: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(_READERS)
        self._listens = self._closed = False

    @contextlib.asynccontextmanager
    async def following(self, chosen: FeedFilter, after: Cursor) -> AsyncIterator[Follower]:
        """Somebody who wants these events, from behind this cursor on."""
        follower = Follower(self, chosen, after)
        self._followers.add(follower)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_on(), name="stream-hub")
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    async def close(self) -> None:
        """Stop reading."""
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def page(self, chosen: FeedFilter, after: Cursor) -> FeedPage:
        """A page for one follower. Raises DATABASE_AWAY."""
        async with self._readers, self._database.read() as connection:
            return await feed.read(connection, chosen, after=after, limit=_PAGE, now=self._clock())

    def reached(self) -> Cursor | None:
        """Up to where followers have been handed everything."""
        return self._tail

    async def _read_on(self) -> None:
        try:
            while self._followers and not self._closed:
                try:
                    pause = await self._round()
                except DATABASE_AWAY as error:
                    log.warning("The streams wait for the database.", error=type(error).__name__)
                    pause = _IDLE_SECONDS
                except Exception as error:  # ours: the streams must not stand still for it
                    log.error("Reading the feed failed; it goes on.", exc_info=error)
                    pause = _IDLE_SECONDS
                if pause:
                    await asyncio.sleep(_BREATH_SECONDS)
                    await self._doorbell.wait(pause)
        finally:
            self._reader = self._tail = None

    async def _round(self) -> float:
        """Read once and hand out; returns for how long to wait for the doorbell then."""
        if not self._listens:
            await self._doorbell.listen()
            self._listens = True
        listening = frozenset(self._followers)
        if self._tail is None:
            async with self._database.read() as connection:
                self._tail = await feed.end(connection, now=self._clock())
            for follower in self._followers:
                follower.fall_behind()  # what lies before is theirs to read
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
                # It came while this was being read, and not for it.
                follower.fall_behind()
        if page.more:
            return 0.0
        return _HELD_BACK_SECONDS if page.held_back else _IDLE_SECONDS


class Follower:
    """One stream's place in the feed. `cursor` is behind what `next` gave last."""

    def __init__(self, hub: StreamHub, chosen: FeedFilter, after: Cursor) -> None:
        self.chosen = chosen
        self.cursor = after
        self._hub = hub
        self._queue: deque[FeedEvent] = deque()
        self._queued_bytes = 0
        self._behind = True
        self._woken = asyncio.Event()

    async def next(self, timeout: float) -> Sequence[FeedEvent]:
        """The next events; none when there were none for `timeout` seconds. Raises DATABASE_AWAY;
        it can be asked again then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            if self._behind:
                # before the read: what the hub drops from here on, a later page has
                self._behind = False
                try:
                    page = await self._hub.page(self.chosen, self.cursor)
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
                # not wait_for, which in Python 3.11 takes a cancellation for the event
                async with asyncio.timeout_at(until):
                    await self._woken.wait()
            except TimeoutError:
                self._advance()
                return ()

    def offer(self, events: Sequence[FeedEvent]) -> None:
        """Take what the hub read, as far as it is wanted."""
        for event in events:
            if not self.chosen.wants_event(event):
                continue
            self._queue.append(event)
            self._queued_bytes += len(event.body)
            if len(self._queue) > _QUEUED_EVENTS or self._queued_bytes > _QUEUED_BYTES:
                self.fall_behind()
                return
        if self._queue:
            self._woken.set()

    def fall_behind(self) -> None:
        """Forget what was handed out, and read it from the database."""
        self._clear()
        self._behind = True
        self._woken.set()

    def _take(self) -> list[FeedEvent]:
        place = self.cursor
        events = [event for event in self._queue if not place.covers(event.position, event.id)]
        self._clear()
        return events

    def _clear(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0

    def _advance(self) -> None:
        """Move on past what was of no interest: a client that comes back need not begin there."""
        tail = self._hub.reached()
        if tail is not None and not self._queue and not self._behind and self.cursor < tail:
            self.cursor = tail
