"""A cache of sources, ready to verify requests: with compiled expressions and decrypted secrets.

Sources are cached for two seconds. A change takes effect within that time in every process, and at
once in the process that made it. Requests that a change newly allows are accepted at once
everywhere: before a request is rejected, its source is read again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from cachetools import LRUCache

from hookfast.clock import Clock
from hookfast.errors import NotFound
from hookfast.ids import is_id
from hookfast.inbox import BusinessKeys, Provider, compile_expression, provider
from hookfast.inbox.source_secrets import OpenSecret, open_secrets
from hookfast.inbox.verified_request import SourceRules
from hookfast.settings.types import Network
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import sources
from hookfast.storage.tables import Source

FRESH_SECONDS = 2.0
REREAD_SECONDS = 0.25
"""A source that was read this recently is not read again before a rejection: wrong signatures, of
which anybody can send any number, cost each source at most four look-ups a second."""
_CAPACITY = 4_096
_LOOKUPS_AT_ONCE = 2
"""The most database connections that requests with invented source ids can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """An active source with its decrypted secrets."""

    id: str
    tenant_id: str
    provider: Provider
    rules: SourceRules
    networks: tuple[Network, ...]
    secrets: tuple[OpenSecret, ...] = field(repr=False)

    def secrets_at(self, now: datetime) -> list[str]:
        """Return the secrets that are valid at this time, the current one first."""
        return [one.text for one in self.secrets if one.expires_at is None or one.expires_at > now]

    def admits(self, caller: str | None) -> bool:
        """Whether this address may send requests to the source."""
        if not self.networks:
            return True
        if caller is None:
            return False
        address = ip_address(caller)
        return any(address in network for network in self.networks)


class SourceCache:
    """Finds active sources. One per process."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock) -> None:
        self._database = database
        self._keyring = keyring
        self._clock = clock
        # with the time at which it was read, by time.monotonic()
        self._known: LRUCache[str, tuple[float, OpenSource]] = LRUCache(_CAPACITY)
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

    async def find(self, source_id: str) -> OpenSource:
        """Return the source. Raises the same NotFound, after the same look-up, whether it never
        existed, is deleted or inactive: callers learn only whether an address works."""
        known = self._known_for(FRESH_SECONDS, source_id)
        if known is not None:
            return known
        if not is_id("src", source_id):
            raise _unknown()
        async with self._lookups:
            # another request may have read it while this one waited
            known = self._known_for(FRESH_SECONDS, source_id)
            if known is None:
                known = await self._load(source_id)
        return known

    async def reread(self, cached: OpenSource) -> OpenSource | None:
        """Return the current version of a source that rejects a request: a secret may have been
        rotated in another process, and GitHub does not send again. None if `cached` was read within
        REREAD_SECONDS. Raises NotFound."""
        async with self._lookups:
            known = self._known_for(REREAD_SECONDS, cached.id)
            if known is None:
                known = await self._load(cached.id)
        return None if known is cached else known

    def forget(self, source_id: str | None = None) -> None:
        """Drop a source from the cache (None: all sources), because it was changed here."""
        if source_id is None:
            self._known.clear()
        else:
            self._known.pop(source_id, None)

    def _known_for(self, seconds: float, source_id: str) -> OpenSource | None:
        """Return the source if it was read within the last `seconds`."""
        read = self._known.get(source_id)
        return read[1] if read is not None and read[0] + seconds > time.monotonic() else None

    async def _load(self, source_id: str) -> OpenSource:
        self._known.pop(source_id, None)
        began = time.monotonic()
        async with self._database.read() as connection:
            row = await sources.get(connection, source_id)
        if row is None or not row.active:
            raise _unknown()
        opened = opened_source(row, self._keyring, now=self._clock())
        self._known[source_id] = (began, opened)
        return opened


def opened_source(row: Source, keyring: Keyring, *, now: datetime) -> OpenSource:
    """Return a source's row, ready to verify requests. Raises Misconfigured if a secret cannot be
    decrypted."""
    bound = provider(row.provider, row.options)
    return OpenSource(
        id=row.id,
        tenant_id=row.tenant_id,
        provider=bound,
        rules=rules_of(row, bound),
        networks=tuple(ip_network(text) for text in row.allowed_networks),
        secrets=open_secrets(row.secrets, keyring, source_id=row.id, now=now),
    )


def rules_of(row: Source, bound: Provider) -> SourceRules:
    """Return the source's own rules for its events. Raises InvalidInput at the faulty member."""
    idempotency = row.idempotency
    expression = row.id_expression
    return SourceRules(
        event_types=row.event_types,
        id_expression=None
        if expression is None
        else compile_expression(expression, pointer="/id_expression"),
        business_keys=None
        if idempotency is None
        else BusinessKeys.parse(
            idempotency["expression"], provider=bound, pointer="/idempotency/expression"
        ),
        business_window=timedelta(
            seconds=0 if idempotency is None else idempotency["window_seconds"]
        ),
    )


def _unknown() -> NotFound:
    return NotFound("There is no such source.", code="unknown_source")
