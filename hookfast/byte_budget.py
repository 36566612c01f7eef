"""The bytes of bodies that one process holds at once: the one place that bounds them.

A process has one `ByteBudget` of `HOOKFAST_MAX_BODY_MEMORY`. What it covers:

- **Requests that arrive** (`api.http.request_body`): what has arrived of a body, until its response
  is sent. A declared length reserves nothing.
- **Answers that leave** (`api.http.exchange`): what the client has not taken yet, and what
  streams and polls have read for theirs (`api.stream.hub`, `api.routes.poll`).
- **Bodies of attempts** (`hookfast.storage.deliveries.bodies`): what a worker sends, from before it
  is loaded until the attempt is recorded. A body that several attempts send at once counts once.

Not counted are two bodies that a worker loads, one that it makes, what one statement of the API
loads, and bodies up to `SMALL_BYTES`, which cost less than their connections and slots: these are
limited in number. Values parsed out of bodies have a second budget (`api.context`), of four times
as much.

**Shares.** Every claim names its owners: a tenant, an endpoint, a source, a client's site. An owner
may hold half of what is then free ("dynamic thresholds", Choudhury and Hahne, 1998): one alone gets
a third of the budget, the next a third of the rest, and so on. A claim without owners is the
operator's, for all tenants: it leaves an eighth free. An owner can be a part of another one (see
`part_of`), such as a site of all callers without a key: it may hold half of what is then free of
that share, so that one site leaves something of it to the others.

**The turn.** Bodies that grow side by side could wait for each other for ever. So one claim at a
time, of those that wait the one whose owners hold least, grows beyond its share, up to the largest
body. That much of the budget is kept for it. Its turn ends when what is left of it fits its share.

**Short ones go first, slow ones go.** Of the claims that wait, those that will need least get room
first. While one waits, claims that have not moved for a second, or move more slowly than 64 KiB/s,
are dropped: their connections are closed. What waits but is in memory already is at most an eighth
of the budget; of more, those that will need most are refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from hookfast.errors import Unavailable

SMALL_BYTES = 16_384
WAIT_SECONDS = 10.0
"""A claim waits for room at most this long."""
SHORT_WAIT_SECONDS = 3.0
"""So long if its bytes were loaded for it already: long enough to drop slow claims."""

_SLOW_BYTES_PER_SECOND = 65_536
_SLOW_SECONDS = 1.0
_LOOK_SECONDS = 0.25  # between two looks for slow claims

log = structlog.get_logger()


def part_of(owner: str, part: str) -> str:
    """Return the name of an owner that is a part of another one. A claim names both."""
    return f"{owner}{_PART}{part}"


_PART = " > "


class NoRoom(Unavailable):
    """There was no room for a body in time. Nothing was stored or sent."""

    code = "overloaded"

    def __init__(self) -> None:
        super().__init__(
            "Too many requests are in progress. Nothing was stored; send it again.", retry_after=1
        )


class ByteBudget:
    """A budget of `limit` bytes, for one event loop. A body of `largest` bytes finds room sooner or
    later; if that is more than half of the limit, the budget is half of the limit and `largest`."""

    def __init__(self, limit: int, *, largest: int) -> None:
        self.largest = largest
        self._shared = max(limit - largest, limit // 2)
        self._used = 0
        self._by_owner: Counter[str] = Counter()
        self._claims: set[Claim] = set()
        self._waiting: dict[Claim, tuple[int, asyncio.Future[bool]]] = {}
        self._uncounted: dict[Claim, int] = {}
        self._turn: Claim | None = None
        self._slow: list[Claim] = []
        self._look_at = 0.0

    @property
    def used(self) -> int:
        """The bytes that all claims hold."""
        return self._used + (0 if self._turn is None else self._turn.size)

    @contextmanager
    def claim(
        self,
        what: str,
        *owners: str,
        expected: int = 0,
        on_drop: Callable[[], None] | None = None,
    ) -> Iterator[Claim]:
        """Yield a claim without bytes, which holds those it grows by until the block ends. `what`
        names it in the log; `expected` is how many bytes it will need, as far as is known.
        `on_drop`, called if it is slow and others need its room, has the block end soon; None: it
        is never dropped."""
        claim = Claim(self, what, owners, expected, on_drop)
        self._claims.add(claim)
        try:
            yield claim
        finally:
            claim.shrink(claim.size)
            self._claims.discard(claim)

    async def _grow(self, claim: Claim, size: int, within: float, *, loaded: bool) -> None:
        if self._take(claim, size):
            return
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            while True:
                woken = loop.create_future()
                self._waiting[claim] = (size, woken)
                self._give_turn()
                if self._take(claim, size):
                    return
                self._uncounted[claim] = size if loaded else 0
                self._refuse_too_many()
                left = since + within - loop.time()
                if left <= 0:
                    raise NoRoom
                self._drop_slow(claim, size)
                await asyncio.wait({woken}, timeout=min(left, _LOOK_SECONDS))
                if woken.done() and not woken.result():
                    raise NoRoom
        finally:
            del self._waiting[claim]
            self._uncounted.pop(claim, None)
            if not self._waiting:
                self._slow, self._look_at = [], 0.0
            claim.paused(loop.time() - since)  # it was not its client that was slow

    def _take(self, claim: Claim, size: int) -> bool:
        """Count `size` more bytes for the claim, and return whether there was room."""
        if claim is not self._turn and not self._fits(claim.owners, size):
            return False
        self._count(claim, size)
        return True

    def _fits(self, owners: Sequence[str], size: int) -> bool:
        free = self._shared - self._used - size
        if not owners:
            return free >= self._shared // 8
        for owner in owners:
            whole, is_part, _ = owner.partition(_PART)
            share = (free / 2 - self._by_owner[whole] - size) / 2 if is_part else free / 2
            if self._by_owner[owner] + size > share:
                return False
        return True

    def _count(self, claim: Claim, size: int) -> None:
        if claim.size == 0 < size:
            claim.begin()
        claim.size += size
        if claim is not self._turn:
            self._share(claim, size)
        elif size <= 0 and (not claim.size or self._fits(claim.owners, claim.size)):
            self._turn = None
            self._share(claim, claim.size)
            self._wake()

    def _share(self, claim: Claim, size: int) -> None:
        """Count `size` bytes of the claim for its owners, or give them back if they are below 0."""
        self._used += size
        for owner in claim.owners:
            self._by_owner[owner] += size
            if not self._by_owner[owner]:
                del self._by_owner[owner]
        if size < 0:
            self._wake()

    def _give_turn(self) -> None:
        """Give the turn to the waiting claim whose owners hold least. What it holds no longer
        counts as shared."""
        if self._turn is None:
            claim = min(self._waiting, key=lambda one: (self._held_by_owners(one), one.expected))
            self._turn = claim
            self._share(claim, -claim.size)
            self._wake()

    def _refuse_too_many(self) -> None:
        excess = sum(self._uncounted.values()) - self._shared // 8
        if excess <= 0:
            return
        for one in sorted(self._uncounted, key=lambda one: one.expected, reverse=True):
            if excess <= 0 or len(self._uncounted) == 1:
                return
            excess -= self._uncounted.pop(one)
            _, woken = self._waiting[one]
            if not woken.done():
                # not an exception, which would keep the claim's frames and what they hold
                woken.set_result(False)

    def _held_by_owners(self, claim: Claim) -> list[int]:
        """Return what each owner of the claim holds, most first: all callers without a key have one
        owner in common."""
        return sorted((self._by_owner[owner] for owner in claim.owners), reverse=True)

    def _drop_slow(self, waiting: Claim, size: int) -> None:
        """Drop the largest slow claims until there will be room: first those of the same owners,
        whose share it is."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:  # for all that wait: they may be many, and so may the claims
            self._look_at = now + _LOOK_SECONDS / 4
            self._slow = [one for one in self._claims if self._may_drop(one, now)]
        slow = [one for one in self._slow if self._may_drop(one, now)]
        mine = [one for one in slow if not set(one.owners).isdisjoint(waiting.owners)]
        missing = size + SMALL_BYTES
        for one in sorted(mine or slow, key=lambda one: one.size, reverse=True):
            if missing <= 0:
                return
            missing -= one.size
            one.drop(now)

    def _may_drop(self, one: Claim, now: float) -> bool:
        is_held = one.size > 0 and one.on_drop is not None and one not in self._waiting
        return is_held and one.is_slow(now)

    def _wake(self) -> None:
        """Wake the claims for which there is room now, first those that will need least."""
        if not self._waiting:
            return
        self._give_turn()
        for claim in sorted(self._waiting, key=lambda one: one.expected):
            size, woken = self._waiting[claim]
            if not woken.done() and (claim is self._turn or self._fits(claim.owners, size)):
                woken.set_result(True)


class Claim:
    """The bytes that one body holds."""

    __slots__ = (
        "_began",
        "_budget",
        "_mark",
        "_moved_at",
        "_moved_before_mark",
        "expected",
        "moved",
        "on_drop",
        "owners",
        "size",
        "what",
    )

    def __init__(
        self,
        budget: ByteBudget,
        what: str,
        owners: tuple[str, ...],
        expected: int,
        on_drop: Callable[[], None] | None,
    ) -> None:
        self._budget = budget
        self.what = what
        self.owners = owners
        self.expected = expected
        self.on_drop = on_drop
        self.size = 0
        self.moved = 0
        self.begin()

    async def grow(self, size: int, *, within: float | None = None, loaded: bool = False) -> None:
        """Hold `size` more bytes, and wait for room at most `within` seconds (10 by default).
        `loaded`: they are in memory already. Raises NoRoom."""
        seconds = WAIT_SECONDS if within is None else within
        await self._budget._grow(self, size, seconds, loaded=loaded)

    def begin(self) -> None:
        """Note that it begins to move, or does so again after it had nothing to move."""
        self._began = self._mark = self._moved_at = asyncio.get_running_loop().time()
        self._moved_before_mark = self.moved

    def take(self, size: int) -> bool:
        """Hold `size` more bytes if there is room, and return whether there was."""
        return self._budget._take(self, size)

    def count(self, size: int) -> None:
        """Hold `size` more bytes that are in memory already, whether there is room or not."""
        self._budget._count(self, size)

    def shrink(self, size: int) -> None:
        """Give `size` bytes back."""
        self._budget._count(self, -size)

    def move(self, size: int) -> None:
        """Note that `size` bytes have arrived or left."""
        self._moved_at = asyncio.get_running_loop().time()
        if self._moved_at - self._mark > _SLOW_SECONDS:
            self._mark, self._moved_before_mark = self._moved_at, self.moved
        self.moved += size

    def paused(self, seconds: float) -> None:
        """Note that it could not move for so long, because we had no room."""
        self._began += seconds
        self._mark += seconds
        self._moved_at += seconds

    def is_slow(self, now: float) -> bool:
        """Whether it has not moved for a second, or moves more slowly than a client should."""
        measured = now - self._mark
        moved = self.moved - self._moved_before_mark
        return now - self._moved_at > _SLOW_SECONDS or (
            measured > _SLOW_SECONDS / 2
            and now - self._began > _SLOW_SECONDS
            and moved < measured * _SLOW_BYTES_PER_SECOND
        )

    def drop(self, now: float) -> None:
        """Have the block of the claim end, because others need its room."""
        on_drop, self.on_drop = self.on_drop, None
        log.warning(
            "A slow body was dropped: others need its memory.",
            held_by=self.what,
            owners=list(self.owners),
            bytes_held=self.size,
            bytes_moved=self.moved,
            duration_ms=round((now - self._began) * 1000, 1),
        )
        if on_drop is not None:
            on_drop()
