"""A cache of received requests, for deliveries that forward them unchanged (payload `raw`)."""

from __future__ import annotations

from collections.abc import Iterable

from cachetools import LRUCache
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_entries import RawRequest

_CACHE_BYTES = 64 * 1024 * 1024


class RawRequestCache:
    """Caches the requests that were used last, up to 64 MiB of bodies; one per process. A received
    request never changes, so a cached one is always right."""

    def __init__(self) -> None:
        self._cached: LRUCache[str, RawRequest] = LRUCache(
            _CACHE_BYTES, getsizeof=lambda raw: len(raw.body)
        )

    def cached(self, inbox_id: str) -> RawRequest | None:
        """Return an inbox entry's request if it is cached."""
        return self._cached.get(inbox_id)

    async def load(
        self, connection: AsyncConnection, inbox_ids: Iterable[str]
    ) -> dict[str, RawRequest]:
        """Return the requests of these inbox entries, without entries that are no longer kept."""
        ids = set(inbox_ids)
        found = {one: raw for one in ids if (raw := self._cached.get(one)) is not None}
        if missing := ids - found.keys():
            loaded = await inbox_entries.raw_requests(connection, missing)
            self._cached.update({one: raw for one, raw in loaded.items() if not raw.damaged})
            found |= loaded
        return found
