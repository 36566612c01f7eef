"""The bodies of attempts: a large one is loaded right before its request, within the byte budget.

A small body comes with its event (`outgoing`). For a large one, an attempt first claims its size,
in the name of its tenant and its endpoint. Without room nothing is loaded: `NoRoom` says so, and
the attempt is made later. A body that several attempts send at once is in memory once and counted
once. Recently used bodies stay in a small part of the budget, for fan-outs and quick retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from cachetools import LRUCache
from sqlalchemy import bindparam, select

from hookfast.byte_budget import SMALL_BYTES, ByteBudget, Claim
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Event, InboxEntry

LARGE_BYTES = 512 * 1024
"""It takes up to a second to load, map, encrypt and sign a larger body. So these are prepared one
at a time, and only in the regular queue, where no deadline is that close."""
SEND_BUFFER = 128 * 1024
"""The most that the transport of one request holds of a body, beside the body itself."""
_LOADS = 2
"""Bodies above `LARGE_BYTES` that are loaded at once: a driver holds one up to three times while it
receives it."""

_E, _I = Event.__table__.c, InboxEntry.__table__.c
_READ = {
    "events": select(_E.body).where(_E.id == bindparam("id")),
    "inbox": select(_I.body).where(_I.id == bindparam("id")),
}


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body in the database, of `size` bytes. `content` is None if it is large."""

    table: Literal["events", "inbox"]
    id: str
    size: int
    content: bytes | None = field(repr=False)

    @property
    def is_large(self) -> bool:
        """Whether its attempt is made in the regular queue only."""
        return self.size > LARGE_BYTES


class BodyGone(Exception):
    """A large body was deleted since its event was read."""


class AttemptBodies:
    """Lends bodies to attempts, within `budget`. One per worker process. `idle_bytes` is the size
    of the part that keeps bodies which no attempt needs at the moment."""

    def __init__(self, database: Database, budget: ByteBudget, *, idle_bytes: int) -> None:
        self._database = database
        self._budget = budget
        self._shared: dict[tuple[str, str], _SharedBody] = {}
        self._loading = asyncio.Semaphore(_LOADS)
        self._idle: LRUCache[tuple[str, str], bytes] = LRUCache(idle_bytes, getsizeof=len)
        self._idle_claim = Claim(budget, "idle bodies", (), 0, None)

    @asynccontextmanager
    async def room(
        self, stored: StoredBody | None, *owners: str, more: int, within: float
    ) -> AsyncIterator[AttemptRoom]:
        """Claim room for a body that an attempt sends, and for `more` bytes that it makes of a
        large one. The block ends when the attempt has ended. Raises NoRoom after `within` seconds.
        """
        with self._budget.claim("attempt", *owners) as claim:
            if stored is None or stored.content is not None:
                yield AttemptRoom(claim, (stored and stored.content) or b"")
                return
            more += min(stored.size, SEND_BUFFER)
            shared = self._shared.get((stored.table, stored.id))
            missing = 0
            if shared is None:
                await claim.grow(stored.size + more, within=within)
                shared = self._share(stored, claim)
            else:
                shared.users.append(claim)
                missing = more
            room = AttemptRoom(claim, b"", self, shared)
            try:
                if missing:
                    await claim.grow(missing, within=within)
                yield room
            finally:
                room.leave()

    def _share(self, stored: StoredBody, claim: Claim) -> _SharedBody:
        """Share a body that this claim counts, unless another attempt's does by now."""
        key = (stored.table, stored.id)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _SharedBody(stored, claim)
        else:
            claim.shrink(stored.size)
        shared.users.append(claim)
        return shared

    async def load(self, shared: _SharedBody) -> bytes:
        """Return a shared body, which is loaded once. Raises BodyGone, and SQLAlchemy's errors."""
        loading = shared.loading
        if loading is None:
            loading = shared.loading = asyncio.create_task(self._load(shared.stored))
            loading.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(loading)
        except Exception:
            if shared.loading is loading:
                shared.loading = None  # the next attempt that needs it tries again
            raise

    async def _load(self, stored: StoredBody) -> bytes:
        idle = self._idle.pop((stored.table, stored.id), None)
        self._count_idle()
        if idle is not None:
            return idle
        turn = self._loading if stored.is_large else nullcontext()
        async with turn, self._database.read(quick=not stored.is_large) as connection:
            found = await connection.execute(_READ[stored.table], {"id": stored.id})
            body: bytes | None = found.scalar_one_or_none()
        if body is None:
            raise BodyGone
        return body

    def give_back(self, shared: _SharedBody, claim: Claim) -> None:
        """Note that the attempt with this claim no longer needs the body."""
        stored, loading = shared.stored, shared.loading
        shared.users.remove(claim)
        if shared.counted_by is claim:
            claim.shrink(stored.size)
            if shared.users:
                shared.counted_by = shared.users[0]
                shared.counted_by.count(stored.size)
        if shared.users:
            return
        key = (stored.table, stored.id)
        del self._shared[key]
        shared.loading = None  # which holds the body
        if loading is None:
            return
        loading.cancel()
        if loading.done() and not loading.cancelled() and loading.exception() is None:
            body = loading.result()
            if len(body) <= min(LARGE_BYTES, self._idle.maxsize):
                self._idle[key] = body
                self._count_idle()

    def _count_idle(self) -> None:
        change = int(self._idle.currsize) - self._idle_claim.size
        if change > 0:
            self._idle_claim.count(change)
        elif change < 0:
            self._idle_claim.shrink(-change)


class AttemptRoom:
    """The room that one attempt has, and the body in it, which is empty until it is loaded."""

    __slots__ = ("_bodies", "_claim", "_shared", "body")

    def __init__(
        self,
        claim: Claim,
        body: bytes,
        bodies: AttemptBodies | None = None,
        shared: _SharedBody | None = None,
    ) -> None:
        self.body = body
        self._claim = claim
        self._bodies = bodies
        self._shared = shared

    async def load(self) -> None:
        """Load a large body. Raises BodyGone, and SQLAlchemy's errors."""
        if self._bodies is not None and self._shared is not None:
            self.body = await self._bodies.load(self._shared)

    async def replace(self, made: bytes, *, more: int = 0) -> None:
        """Hold `made` instead of the stored body, which the attempt no longer needs, and count
        `more` bytes that are made of it. Raises NoRoom, at once, if they are more than counted so
        far."""
        self.body = made
        self.leave()
        needed = len(made) + more + min(len(made), SEND_BUFFER)
        if needed <= 2 * SMALL_BYTES:
            needed = 0
        if needed > self._claim.size:
            await self._claim.grow(needed - self._claim.size, within=0)
        else:
            self._claim.shrink(self._claim.size - needed)

    def leave(self) -> None:
        """Give the stored body back."""
        if self._bodies is not None and self._shared is not None:
            self._bodies.give_back(self._shared, self._claim)
            self._shared = None


@dataclass(slots=True)
class _SharedBody:
    """A large body that attempts with these claims send. One of the claims counts it."""

    stored: StoredBody
    counted_by: Claim
    users: list[Claim] = field(default_factory=list)
    loading: asyncio.Task[bytes] | None = None


def _retrieve(task: asyncio.Task[bytes]) -> None:
    """Take the error of a load that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
