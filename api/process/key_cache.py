"""API keys as they are looked up: by SHA-256, remembered for two seconds, their use noted in the
background. A revoked key stops working within those two seconds in every process."""

from __future__ import annotations

import hashlib
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, cast

import asyncpg
import structlog
from cachetools import LRUCache
from sqlalchemy.exc import SQLAlchemyError

from api.process.flushing import flushing
from hookfast.clock import Clock
from hookfast.storage.accounts import api_keys
from hookfast.storage.database.engine import Database

Scope = Literal["operator", "tenant", "tenant:read", "emit"]

FRESH_SECONDS = 2.0
_CAPACITY = 4_096
_NOTE_EVERY = timedelta(minutes=1)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """A key that is not revoked. `tenant_id` is None for the operator's own keys."""

    key_id: str
    scope: Scope
    tenant_id: str | None
    expires_at: datetime | None


def key_hash(key: str) -> str:
    """The SHA-256 of a key, in hex. Looking a key up by its hash tells a caller's clock nothing
    about the stored ones: nearby keys have unrelated hashes."""
    return hashlib.sha256(key.encode()).hexdigest()


class KeyCache:
    """Finds keys and notes their use."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: LRUCache[str, tuple[float, KnownKey]] = LRUCache(_CAPACITY)  # → (until, key)
        self._used: set[str] = set()

    def has_seen(self, key: str) -> bool:
        """Whether the key was valid when it was last looked up; it may have been revoked since."""
        return key_hash(key) in self._known

    async def find(self, key: str) -> KnownKey | None:
        """The key, or None when it is unknown, revoked or expired."""
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

    def used(self, key_id: str) -> None:
        """A valid key was used by other means than itself: by a session that it began."""
        self._used.add(key_id)

    def forget(self) -> None:
        """Look every key up again: in this process a revocation works at once."""
        self._known.clear()

    def noting_use(self) -> AbstractAsyncContextManager[None]:
        """While the block runs, write `last_used_at` of the keys in use once a minute."""
        return flushing(self.note_use, seconds=_NOTE_EVERY.total_seconds(), name="note-key-use")

    async def note_use(self) -> None:
        """Write `last_used_at` of every key used since the last time."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            async with self._database.write() as connection:
                await api_keys.touch(connection, used, at=self._clock())
        except (SQLAlchemyError, asyncpg.PostgresError, OSError) as error:
            self._used |= used
            log.warning("Could not note which API keys were used.", error=type(error).__name__)

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
