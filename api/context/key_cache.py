"""A cache of API keys: found by SHA-256, cached for two seconds, with their use recorded in the
background. A revoked key stops working within those two seconds in every process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from cachetools import LRUCache
from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock
from hookfast.outage_log import DATABASE
from hookfast.storage.accounts import api_keys
from hookfast.storage.accounts.api_keys import Scope, key_hash
from hookfast.storage.database.engine import Database

FRESH_SECONDS = 2.0
_CAPACITY = 4_096
RECORD_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """A key that was not revoked when it was read. `tenant_id` is None for the operator's own
    keys."""

    key_id: str
    scope: Scope
    tenant_id: str | None
    expires_at: datetime | None


class KeyCache:
    """Finds keys and records their use."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: LRUCache[str, tuple[float, KnownKey]] = LRUCache(_CAPACITY)  # → (until, key)
        self._used: set[str] = set()

    def has_seen(self, key: str) -> bool:
        """Whether the key was valid when it was last read; it may have been revoked since."""
        return key_hash(key) in self._known

    async def find(self, key: str) -> KnownKey | None:
        """Return the key, or None if it is unknown, revoked or expired."""
        digest = key_hash(key)
        now = time.monotonic()
        until, known = self._known.get(digest, (0.0, None))
        if known is None or until < now:
            known = await self._load(digest)
            self._known.pop(digest, None)
            if known is None:
                return None
            self._known[digest] = (now + FRESH_SECONDS, known)
        if known.expires_at is not None and known.expires_at <= self._clock():
            return None
        self._used.add(known.key_id)
        return known

    def mark_used(self, key_id: str) -> None:
        """Count a request as use of a key that was not sent: that of a session which the key
        started."""
        self._used.add(key_id)

    def forget(self) -> None:
        """Drop all cached keys, so that a revocation works at once in this process."""
        self._known.clear()

    async def record_use(self) -> None:
        """Write `last_used_at` of every key used since the last call."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            async with self._database.write() as connection:
                await api_keys.touch(connection, used, at=self._clock())
        except SQLAlchemyError as error:
            self._used |= used
            DATABASE.failed("Could not record the use of API keys.", error=type(error).__name__)

    async def _load(self, digest: str) -> KnownKey | None:
        async with self._database.read() as connection:
            row = await api_keys.by_hash(connection, digest)
        if row is None or row.revoked_at is not None:
            return None
        return KnownKey(
            key_id=row.id,
            scope=cast(Scope, row.scope),
            tenant_id=row.tenant_id,
            expires_at=row.expires_at,
        )
