"""Sources as requests to them are judged: their provider bound, their expressions compiled, their
secrets opened; remembered for two seconds. A change is in force in every process within those, and
at once in the one that made it. What it newly allows is in force at once in all of them: a request
that a remembered source refuses is judged by the source as it is now."""

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
from hookfast.settings.settings import Network
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import sources
from hookfast.storage.tables import Source

FRESH_SECONDS = 2.0
RENEWED_SECONDS = 0.25
"""What was read so lately is not read again for a refusal: wrong signatures, of which anybody can
send any number, cost each source four look-ups a second at most."""
_CAPACITY = 4_096
_LOOKUPS_AT_ONCE = 2
"""Whoever makes up source ids gets so many of the database's connections, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """A source that is active."""

    id: str
    tenant_id: str
    provider: Provider
    rules: SourceRules
    networks: tuple[Network, ...]
    secrets: tuple[OpenSecret, ...] = field(repr=False)

    def secrets_at(self, now: datetime) -> list[str]:
        """What verifies then, the current one first."""
        return [one.text for one in self.secrets if one.expires_at is None or one.expires_at > now]

    def admits(self, caller: str | None) -> bool:
        """Whether requests may come from this address."""
        if not self.networks:
            return True
        if caller is None:
            return False
        address = ip_address(caller)
        return any(address in network for network in self.networks)


class SourceCache:
    """One per process."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock) -> None:
        self._database = database
        self._keyring = keyring
        self._clock = clock
        # with when it was read, by time.monotonic()
        self._known: LRUCache[str, tuple[float, OpenSource]] = LRUCache(_CAPACITY)
        self._lookups = asyncio.Semaphore(_LOOKUPS_AT_ONCE)

    async def find(self, source_id: str) -> OpenSource:
        """The source. Raises NotFound alike, after the same look-up, for one that never was, is
        deleted or is switched off: an address tells nobody more than whether it works."""
        known = self._known_for(FRESH_SECONDS, source_id)
        if known is not None:
            return known
        if not is_id("src", source_id):
            raise _unknown()
        async with self._lookups:
            # who waited here for the same one has it by now
            known = self._known_for(FRESH_SECONDS, source_id)
            if known is None:
                known = await self._load(source_id)
        return known

    async def renewed(self, judge: OpenSource) -> OpenSource | None:
        """The source as it is now, for a request that it refuses as `judge` remembers it: a secret
        may have been rotated in another process, and GitHub does not send again. None where
        `judge` is what was read RENEWED_SECONDS ago at most. Raises NotFound."""
        async with self._lookups:
            known = self._known_for(RENEWED_SECONDS, judge.id)
            if known is None:
                known = await self._load(judge.id)
        return None if known is judge else known

    def forget(self, source_id: str | None = None) -> None:
        """Look a source up again (None: every one), because it was changed here."""
        if source_id is None:
            self._known.clear()
        else:
            self._known.pop(source_id, None)

    def _known_for(self, seconds: float, source_id: str) -> OpenSource | None:
        """The source, if it was read within so many seconds."""
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
    """A source's row, ready to judge requests. Raises Misconfigured when a secret cannot be
    opened."""
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
    """What a source says of its events beside its provider. Raises InvalidInput, at the member."""
    fact = row.idempotency
    expression = row.id_expression
    return SourceRules(
        event_types=row.event_types,
        id_expression=None
        if expression is None
        else compile_expression(expression, pointer="/id_expression"),
        business_keys=None
        if fact is None
        else BusinessKeys.parse(
            fact["expression"], provider=bound, pointer="/idempotency/expression"
        ),
        business_window=timedelta(seconds=0 if fact is None else fact["window_seconds"]),
    )


def _unknown() -> NotFound:
    return NotFound("There is no such source.", code="unknown_source")
