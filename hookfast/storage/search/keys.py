"""Finds events by their idempotency keys, and received requests by their providers' ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import newest_first
from hookfast.storage.events import events
from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_keys import BUSINESS, DELIVERY
from hookfast.storage.search.hit import PER_KIND, SCANNED, Hit, Scope
from hookfast.storage.search.ids import of_event, of_inbox_entry
from hookfast.storage.tables import IdempotencyKey, InboxKey, Source, Tenant

_EVENT_KEYS = IdempotencyKey.__table__.c
_INBOX_KEYS = InboxKey.__table__.c
_TENANTS = Tenant.__table__.c
_SOURCES = Source.__table__.c

OPERATOR: Final = "operator"
"""The scope of the operator's idempotency keys; a tenant's is its id."""
_MANY_SOURCES: Final = 1_000
_FORMS: Final = ("", "id:", "key:", "sha256:")
"""How a key begins that the inbox made of a provider's id, of an expression, or of the body."""


async def events_by_key(
    connection: AsyncConnection, keys: Collection[str], *, own: str, scope: Scope
) -> list[Hit]:
    """Return the events that were emitted with one of these idempotency keys. `own` is the caller's
    scope of keys. The operator also finds the keys of the newest tenants."""
    scopes = [own]
    if own == OPERATOR:
        scopes += (
            (await connection.execute(_newest(_TENANTS.id, None, SCANNED))).scalars().all()
            if scope.tenant_id is None
            else [scope.tenant_id]
        )
    hits = []
    for event_id in (await connection.execute(event_keys_statement(scopes, keys))).scalars():
        event = await events.get_summary(connection, event_id)
        if event is not None and scope.sees_event(event.tenant_id):
            hits.append(of_event(event))
    return hits


def event_keys_statement(scopes: Sequence[str], keys: Collection[str]) -> Select[str]:
    """Return the statement that finds the events of these keys."""
    found = _EVENT_KEYS.scope.in_(scopes), _EVENT_KEYS.key.in_(sorted(keys))
    return select(_EVENT_KEYS.event_id).where(*found).limit(PER_KIND)


async def inbox_entries_by_key(
    connection: AsyncConnection, keys: Collection[str], *, scope: Scope
) -> list[Hit]:
    """Return the received requests with one of these keys: a provider's delivery id, the result of
    a source's expression, the hash of a body without either (and without a signed time), or a
    business fact. Deleted sources are included."""
    sources = await connection.execute(_newest(_SOURCES.id, scope.tenant_id, _MANY_SOURCES))
    statement = inbox_keys_statement(sources.scalars().all(), keys)
    ids = (await connection.execute(statement)).scalars().all()
    entries = await inbox_entries.summaries(connection, ids)
    return [of_inbox_entry(row) for row in entries.values() if scope.sees(row.tenant_id)]


def inbox_keys_statement(source_ids: Sequence[str], keys: Collection[str]) -> Select[str]:
    """Return the statement that finds the inbox entries of these keys."""
    named = [f"{DELIVERY}{form}{key}" for key in sorted(keys) for form in _FORMS]
    named += [f"{BUSINESS}{key}" for key in sorted(keys)]
    found = _INBOX_KEYS.source_id.in_(source_ids), _INBOX_KEYS.key.in_(named)
    return select(_INBOX_KEYS.inbox_id).where(*found).limit(PER_KIND)


def _newest(column: Any, tenant_id: str | None, limit: int) -> Select[str]:
    """Return the statement for the newest ids of a table, of one tenant (None: of all)."""
    table = column.table
    ids = select(column)
    if tenant_id is not None:
        ids = ids.where(table.c.tenant_id == tenant_id)
    return newest_first(ids, column, after=None, limit=limit)
