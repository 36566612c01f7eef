"""Sources and inbox entries that tests start from."""

from __future__ import annotations

import hashlib
from typing import Any

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.inbox.source_secrets import sealed_secrets
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import inbox_entries, sources
from hookfast.storage.tables import InboxEntry, Source
from tests.support.seed import KEYRING

SOURCE_SECRET = "the-secret-of-the-tests-0123456789"


async def seed_source(
    database: Database, tenant_id: str, *, keyring: Keyring = KEYRING, **columns: Any
) -> str:
    """Store a source, by default of the provider GitHub; return its id."""
    now = utc_now()
    source_id = new_id("src", now)
    secrets = sealed_secrets([SOURCE_SECRET], keyring, source_id=source_id, at=now)
    values = {
        "id": source_id,
        "tenant_id": tenant_id,
        "name": "GitHub",
        "provider": "github",
        "secrets": secrets,
        "created_at": now,
        "updated_at": now,
    }
    async with database.write() as connection:
        await sources.add(connection, Source(**(values | columns)))
    return source_id


async def seed_entry(
    database: Database, source_id: str, tenant_id: str, *, body: bytes = b"{}", **columns: Any
) -> str:
    """Store an inbox entry, by default of a request that failed; return its id."""
    now = utc_now()
    inbox_id = new_id("inb", now)
    values = {
        "id": inbox_id,
        "source_id": source_id,
        "tenant_id": tenant_id,
        "key": f"id:{inbox_id}",
        "event_type": "github.push.received",
        "payload_sha256": hashlib.sha256(body).hexdigest(),
        "content_type": "application/json",
        "headers": [["x-github-event", "push"]],
        "body": body,
        "status": "failed",
        "last_error": "schema_violation: it did not fit",
        "received_at": now,
        "last_seen_at": now,
    }
    async with database.write() as connection:
        await inbox_entries.add(connection, [InboxEntry(**(values | columns)).model_dump()])
    return inbox_id
