"""The requests that events came in with, for deliveries that send them on as they came (payload
style `raw`); the last ones are remembered, by size."""

from __future__ import annotations

from collections.abc import Iterable

from cachetools import LRUCache
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_entries import RawRequest

_CACHE_BYTES = 64 * 1024 * 1024


class RawRequests:
    """One per process. A request never changes, so what is remembered is right."""

    def __init__(self) -> None:
        self._known: LRUCache[str, RawRequest] = LRUCache(
            _CACHE_BYTES, getsizeof=lambda raw: len(raw.body)
        )

    def known(self, inbox_id: str) -> RawRequest | None:
        """The request, where it is remembered."""
        return self._known.get(inbox_id)

    async def load(
        self, connection: AsyncConnection, inbox_ids: Iterable[str]
    ) -> dict[str, RawRequest]:
        """The requests of these entries; one whose entry is no longer kept is left out."""
        wanted = set(inbox_ids)
        found = {one: raw for one in wanted if (raw := self._known.get(one)) is not None}
        if missing := wanted - found.keys():
            loaded = await inbox_entries.raw_requests(connection, missing)
            self._known.update(loaded)
            found |= loaded
        return found
