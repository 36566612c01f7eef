"""Verified requests, and the inboxes of several processes that store them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from hookfast.clock import utc_now
from hookfast.quotas import Quotas
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.emitting.event_quotas import EventQuotas
from hookfast.storage.inbox import inbox_retry
from hookfast.storage.inbox.inbox import Inbox
from hookfast.storage.inbox.inbox_batch import Arrival
from hookfast.storage.inbox.inbox_retry import RetryInput
from hookfast.storage.tables import InboxEntry
from hookfast.telemetry.traceparent import new as new_traceparent

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNLIMITED = Quotas()


def arrival_of(source: str, tenant: str, key: str, **members: Any) -> Arrival:
    given: dict[str, Any] = {
        "source_id": source,
        "tenant_id": tenant,
        "provider": "github",
        "key": key,
        "business_key": None,
        "business_window": HOUR,
        "event_type": "github.push.received",
        "sha256": "0" * 64,
        "content_type": "application/json",
        "headers": (),
        "body": b"{}",
        "data": "{}",
        "value": {},
        "at": NOW,
        "traceparent": new_traceparent(),
    }
    return Arrival(**(given | members))


@asynccontextmanager
async def process(url: str, *, quotas: Quotas = UNLIMITED) -> AsyncIterator[Inbox]:
    """An inbox with a database of its own, as in another process."""
    async with Database(url) as database:
        doorbell = doorbell_for(database)
        inbox = Inbox(database, doorbell, quotas=EventQuotas(quotas))
        try:
            yield inbox
        finally:
            await inbox.close()
            await doorbell.close()


async def retry_entry(database: Database, entry: InboxEntry, *, quotas: Quotas = UNLIMITED) -> None:
    """Retry a failed entry of the provider `github` with an empty payload."""
    input = RetryInput(
        entry=entry,
        data="{}",
        value={},
        provider="github",
        window=HOUR,
    )
    async with database.write() as connection:
        await inbox_retry.retry(connection, input, quotas=EventQuotas(quotas), now=utc_now())
