"""What request bodies may take of a process's memory: while they arrive, and once they are parsed.

Both are bounded for all requests together. What does not fit is refused, or waits a moment, before
the process outgrows what its container gives it and is killed with everybody's requests in hand.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from hookfast.errors import Unavailable

_PATIENCE_SECONDS = 10.0


class BodyMemory:
    """One per process. Half is for callers whom nobody has verified yet, half for those with a key:
    neither can shut the other out."""

    def __init__(self, limit: int, *, largest_known: int, largest_strange: int) -> None:
        self.known = Arriving(limit // 2, largest=largest_known)
        self.strangers = Arriving(limit // 2, largest=largest_strange)
        self.parsed = Parsed(4 * limit)


class Arriving:
    """Bytes of bodies that have come and are not answered. One owner (a source, a tenant) may have
    half of them; `largest`, the most that a single body may have, fits in any case."""

    def __init__(self, limit: int, *, largest: int) -> None:
        self._limit = max(limit, largest)
        self._of_one = max(limit // 2, largest)
        self._total = 0
        self._by_owner: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @contextmanager
    def share(self, owner: str) -> Iterator[Share]:
        """What one request takes, for as long as the block lasts."""
        share = Share(self, owner)
        try:
            yield share
        finally:
            self._total -= share.size
            self._by_owner[owner] -= share.size
            if not self._by_owner[owner]:
                del self._by_owner[owner]
            self._freed.set()

    def take(self, owner: str, size: int) -> bool:
        """Whether there was room for so much more."""
        if self._total + size > self._limit or self._by_owner[owner] + size > self._of_one:
            return False
        self._total += size
        self._by_owner[owner] += size
        return True

    async def change(self) -> None:
        """Wait until a request gives something back."""
        self._freed.clear()
        await self._freed.wait()


class Share:
    """The bytes of one request: those that have come, or that it has said will come."""

    def __init__(self, arriving: Arriving, owner: str) -> None:
        self._arriving = arriving
        self._owner = owner
        self._come = 0
        self.size = 0

    async def reserve(self, size: int) -> None:
        """Room for all of a body before it comes: of two that grow side by side neither might end.
        Raises Unavailable (`overloaded`) when there is none for ten seconds."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not self._arriving.take(self._owner, size):
                    await self._arriving.change()
        except TimeoutError:
            raise _overloaded() from None
        self.size += size

    def grow(self, size: int) -> None:
        """So much has come. Raises Unavailable (`overloaded`) when there is no room for it."""
        self._come += size
        more = self._come - self.size
        if more > 0:
            if not self._arriving.take(self._owner, more):
                raise _overloaded()
            self.size += more


class Parsed:
    """What bodies become when they are parsed: many times their size, where they are made of small
    values. A body that would need more than three quarters of it all counts as so much, and has
    that for itself; smaller ones pass by."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def room(self, body: bytes) -> AsyncIterator[None]:
        """Room for what this body becomes, for as long as the block lasts. Raises Unavailable
        (`overloaded`) when there is none for ten seconds."""
        size = min(parsed_size(body), self._limit * 3 // 4)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._used + size > self._limit:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            raise _overloaded() from None
        self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._freed.set()


def parsed_size(body: bytes) -> int:
    """About how many bytes the body takes with all that is made of it: the text, the values, the
    rows; of a form of the dashboard's what `urllib.parse` takes to undo its escapes. Measured on
    CPython 3.11; what is in strings counts too, which errs on the safe side."""
    lists, objects, values = body.count(b"["), body.count(b"{"), body.count(b",")
    escapes = body.count(b"%")
    return 6 * len(body) + 64 * lists + 232 * objects + 48 * values + 232 * escapes


def _overloaded() -> Unavailable:
    return Unavailable(
        "Too much is in hand. Nothing was stored; send it again.", code="overloaded", retry_after=1
    )
