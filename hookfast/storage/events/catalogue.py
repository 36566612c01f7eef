"""The names of the registered event types: read to check patterns, and cached for suggestions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.catalogue import Catalogue
from hookfast.events.operational import SYSTEM_TENANT, Kind, is_reserved
from hookfast.storage.events import event_types

PAGE: Final = 10_000
"""Names read at once. Of a larger catalogue, only so many are suggested."""
_MAX_AGE_SECONDS: Final = 10.0
"""Age of the names from which rejected events get a suggestion."""
_SEARCHES_PER_SECOND: Final = 50
"""Each takes up to 2 ms. Beyond them, for someone who sends nothing but unknown types, an answer
has no suggestion."""
_MAX_REMEMBERED: Final = 1_000

_OPERATIONAL: Final = Catalogue([kind.value for kind in Kind])


class EventCatalogue:
    """Knows which event types are registered. One per process."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._own = Catalogue(())  # those of the first page, without the operational ones
        self._read_at: float | None = None
        self._found: dict[tuple[str, bool], str | None] = {}
        self._second, self._searches = 0, 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing but operational events was registered when it was read last."""
        return not self._own.names

    async def unmatched(
        self, connection: AsyncConnection, patterns: Collection[str], *, tenant_id: str
    ) -> list[str]:
        """Return the patterns that match no event type now. Operational events go only to the
        system tenant, so others have to name them (`hookfast.…`) for a match."""
        left = [
            pattern
            for pattern in dict.fromkeys(patterns)
            if not (_includes_operational(pattern, tenant_id) and _OPERATIONAL.has_match(pattern))
        ]
        if left:
            async for page in self._pages(connection):
                left = [pattern for pattern in left if not page.has_match(pattern)]
                if not left:
                    break
        return left

    def suggest_pattern(self, pattern: str, *, tenant_id: str) -> str | None:
        """Return the pattern that was probably meant by an unmatched one."""
        if _includes_operational(pattern, tenant_id):
            found = _OPERATIONAL.suggest_pattern(pattern)
            if found is not None:
                return found
        return self._search(pattern, is_pattern=True)

    async def suggest_types(
        self, connection: AsyncConnection, unknown: Collection[str]
    ) -> dict[str, str]:
        """Return the registered event types that were probably meant by unknown ones. Those that
        another process has registered in the last seconds may be missing."""
        if not unknown:
            return {}
        now = self._monotonic()
        if self._read_at is None or now - self._read_at >= _MAX_AGE_SECONDS:
            async for _ in self._pages(connection):
                break
        found = ((one, self._search(one, is_pattern=False)) for one in unknown)
        return {one: name for one, name in found if name is not None}

    def expire(self) -> None:
        """Read the names again for the next suggestion: this process has changed them."""
        self._read_at = None

    async def _pages(self, connection: AsyncConnection) -> AsyncIterator[Catalogue]:
        after: str | None = None
        while True:
            names = await event_types.list_names(connection, after=after, limit=PAGE)
            own = tuple(name for name in names if not is_reserved(name))
            if after is None:
                self._remember(own)
            yield self._own if after is None else Catalogue(own)
            if len(names) < PAGE:
                return
            after = names[-1]

    def _remember(self, names: tuple[str, ...]) -> None:
        if names != self._own.names:
            self._own = Catalogue(names)
            self._found.clear()
        self._read_at = self._monotonic()

    def _search(self, text: str, *, is_pattern: bool) -> str | None:
        key = text, is_pattern
        if key not in self._found:
            second = int(self._monotonic())
            if second != self._second:
                self._second, self._searches = second, 0
            self._searches += 1
            if self._searches > _SEARCHES_PER_SECOND:
                return None
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            find = self._own.suggest_pattern if is_pattern else self._own.suggest_type
            self._found[key] = find(text)
        return self._found[key]


def _includes_operational(pattern: str, tenant_id: str) -> bool:
    return tenant_id == SYSTEM_TENANT or is_reserved(pattern)
