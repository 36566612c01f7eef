"""Bounds for the memory that request bodies use: while they arrive, and once they are parsed.

Both are bounded for all requests together. A body that does not fit waits a moment or is rejected,
so that the process does not outgrow its container's memory and get killed with all its requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from hookfast.errors import Unavailable

_WAIT_SECONDS = 10.0


class BodyMemory:
    """The memory for bodies of one process. Half is for callers with a valid key, half for
    unauthenticated ones: neither can use up the memory of the other."""

    def __init__(
        self, limit: int, *, largest_authenticated: int, largest_unauthenticated: int
    ) -> None:
        self.authenticated = ArrivingBodies(limit // 2, largest=largest_authenticated)
        self.unauthenticated = ArrivingBodies(limit // 2, largest=largest_unauthenticated)
        self.parsed = ParsedBodies(4 * limit)


class ArrivingBodies:
    """Bytes of received bodies whose requests are in progress. One owner (a source, a tenant) may
    use half of them; a body of `largest` bytes, the maximum for one body, always fits alone."""

    def __init__(self, limit: int, *, largest: int) -> None:
        self._limit = max(limit, largest)
        self._owner_limit = max(limit // 2, largest)
        self._total = 0
        self._by_owner: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @contextmanager
    def share(self, owner: str) -> Iterator[Share]:
        """Account for one request's bytes until the block ends."""
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
        """Reserve `size` more bytes, and return whether there was room."""
        if self._total + size > self._limit or self._by_owner[owner] + size > self._owner_limit:
            return False
        self._total += size
        self._by_owner[owner] += size
        return True

    async def wait_for_release(self) -> None:
        """Wait until a request releases its bytes."""
        self._freed.clear()
        await self._freed.wait()


class Share:
    """The bytes of one request: those received, or those declared if they are more."""

    def __init__(self, arriving: ArrivingBodies, owner: str) -> None:
        self._arriving = arriving
        self._owner = owner
        self._received = 0
        self.size = 0

    async def reserve(self, size: int) -> None:
        """Reserve the declared size of a body before it arrives: two bodies that grow side by side
        could block each other. Raises Unavailable (`overloaded`) if there is no room for ten
        seconds."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while not self._arriving.take(self._owner, size):
                    await self._arriving.wait_for_release()
        except TimeoutError:
            raise _overloaded() from None
        self.size += size

    def grow(self, size: int) -> None:
        """Count `size` more received bytes. Raises Unavailable (`overloaded`) if there is no
        room."""
        self._received += size
        more = self._received - self.size
        if more > 0:
            if not self._arriving.take(self._owner, more):
                raise _overloaded()
            self.size += more


class ParsedBodies:
    """Memory for parsed bodies, which take many times their size if they consist of small values. A
    body that needs more than three quarters of it is counted as three quarters, so that it can run,
    and smaller bodies beside it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def reserve(self, body: bytes) -> AsyncIterator[None]:
        """Reserve memory for this body's parsed values until the block ends. Raises Unavailable
        (`overloaded`) if there is no room for ten seconds."""
        size = min(parsed_size(body), self._limit * 3 // 4)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
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
    """Estimate how many bytes the body takes with everything derived from it: text, values and
    rows; for a dashboard form, what `urllib.parse` needs to unescape it. Measured on CPython 3.11.
    Characters inside strings are counted too, which errs on the safe side."""
    lists, objects, values = body.count(b"["), body.count(b"{"), body.count(b",")
    escapes = body.count(b"%")
    shapes = body.translate(_SHAPES)
    decimals = shapes.count(b"0.") + shapes.count(b"0e")
    many = 64 * lists + 232 * objects + 48 * values + 144 * decimals + 232 * escapes
    return 6 * len(body) + many


_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")
"""Writes each number with zeros, so that those with a fraction or an exponent can be counted."""


def _overloaded() -> Unavailable:
    return Unavailable(
        "Too many requests are in progress. Nothing was stored; send it again.",
        code="overloaded",
        retry_after=1,
    )
