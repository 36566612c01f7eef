"""Finds resources by their ids: one look-up by a primary key each, and for a shortened id one range
of an index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sqlalchemy import Select, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import answer_name
from hookfast.deliveries.outcome import Result
from hookfast.ids import Prefix
from hookfast.storage.accounts import api_keys, tenants
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.deliveries import deliveries, jobs, sent_tests
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.events import events
from hookfast.storage.inbox import inbox_entries, sources
from hookfast.storage.search.hit import PER_KIND, Hit, Scope
from hookfast.storage.tables import (
    Attempt,
    AuditEntry,
    Delivery,
    Endpoint,
    Event,
    InboxEntry,
    Job,
    Notice,
    RetentionRun,
    SentTest,
    Source,
    Tenant,
)

NEWEST: Final = 2_000
"""Ids that are compared with a shortened one: so many of the newest."""

_SHORTENED: Final[Mapping[Prefix, tuple[Table, ...]]] = {
    "evt": (Event.__table__,),
    "dlv": (Delivery.__table__, SentTest.__table__),
    "ep": (Endpoint.__table__,),
    "tnt": (Tenant.__table__,),
    "src": (Source.__table__,),
    "inb": (InboxEntry.__table__,),
    "job": (Job.__table__,),
}
"""The ids that lists shorten and that have a page, with their tables."""

_Found = tuple[Hit, str | None] | None
"""A hit, and the endpoint that it belongs to, if there is one."""


async def find(connection: AsyncConnection, prefix: Prefix, id_: str, *, scope: Scope) -> list[Hit]:
    """Return what has this id, and shows what it belongs to."""
    if prefix == "evt":
        return await _event(connection, id_, scope)
    find_one = _FINDS.get(prefix)
    if find_one is None or (prefix == "key" and not scope.keys):
        return []
    if (found := await find_one(connection, id_)) is None:
        return []
    hit, endpoint_id = found
    return [hit] if scope.sees(hit.tenant_id, endpoint_id) else []


async def find_shortened(
    connection: AsyncConnection, prefix: Prefix, end: str, *, scope: Scope
) -> list[str]:
    """Return the ids with this prefix that end with `end`, among the newest of each table. A scope
    of one endpoint has only those of its deliveries and tests."""
    if scope.endpoint_id is not None and prefix != "dlv":
        return []
    found: list[str] = []
    for table in _SHORTENED.get(prefix, ()):
        newest: Select[Any] = select(table.c.id)
        if scope.endpoint_id is not None:
            newest = newest.where(table.c.endpoint_id == scope.endpoint_id)
        elif scope.tenant_id is not None:
            tenant = table.c.id if table is Tenant.__table__ else table.c.tenant_id
            newest = newest.where(tenant == scope.tenant_id)
        ids = newest_first(newest, table.c.id, after=None, limit=NEWEST).subquery()
        ending = select(ids.c.id).where(ids.c.id.endswith(end, autoescape=True))
        found += (await connection.execute(ending.limit(PER_KIND))).scalars()
    return found


async def _event(connection: AsyncConnection, id_: str, scope: Scope) -> list[Hit]:
    """Return the event; for a scope of one endpoint, its deliveries to that endpoint."""
    if scope.endpoint_id is not None:
        chosen = DeliveryFilter(event_id=id_, endpoint_id=scope.endpoint_id)
        rows = await deliveries.list_page(connection, chosen, after=None, limit=PER_KIND)
        return [_of_delivery(row) for row in rows]
    event = await events.get_summary(connection, id_)
    return [] if event is None or not scope.sees_event(event.tenant_id) else [of_event(event)]


def of_event(event: events.EventSummary) -> Hit:
    """Return the hit of an event."""
    number = event.deliveries
    return Hit(
        kind="event",
        id=event.id,
        title=event.type,
        detail=f"{number:,} {'delivery' if number == 1 else 'deliveries'}",
        tenant_id=event.tenant_id,
    )


async def _message(connection: AsyncConnection, id_: str) -> _Found:
    """Return the delivery or the test with this message id."""
    if (row := await deliveries.get(connection, id_)) is not None:
        return _of_delivery(row), row.endpoint_id
    test = await sent_tests.get(connection, id_)
    if test is None:
        return None
    hit = Hit(
        kind="test",
        id=id_,
        title=test.event_type,
        detail=answer_name(Result(test.result), test.status_code),
        tenant_id=test.tenant_id,
        shown_with=test.endpoint_id,
    )
    return hit, test.endpoint_id


def _of_delivery(row: Delivery, *, attempt: int | None = None) -> Hit:
    return Hit(
        kind="delivery",
        id=row.id,
        title=row.event_type,
        detail=row.status if attempt is None else f"{row.status}; attempt {attempt}",
        tenant_id=row.tenant_id,
    )


async def _attempt(connection: AsyncConnection, id_: str) -> _Found:
    c = Attempt.__table__.c
    found = (await connection.execute(select(c.delivery_id, c.number).where(c.id == id_))).first()
    row = None if found is None else await deliveries.get(connection, found.delivery_id)
    if found is None or row is None:
        return None
    return _of_delivery(row, attempt=found.number), row.endpoint_id


async def _endpoint(connection: AsyncConnection, id_: str) -> _Found:
    row = await endpoints.get(connection, id_)
    return None if row is None else (_of_endpoint(row, row.url if row.description else ""), id_)


def _of_endpoint(row: Endpoint, detail: str | None) -> Hit:
    return Hit(
        kind="endpoint",
        id=row.id,
        title=row.description or row.url or "polled",
        detail=detail or "",
        tenant_id=row.tenant_id,
    )


async def _notice(connection: AsyncConnection, id_: str) -> _Found:
    c = Notice.__table__.c
    found = (await connection.execute(select(c.endpoint_id, c.kind).where(c.id == id_))).first()
    row = None if found is None else await endpoints.get(connection, found.endpoint_id)
    if found is None or row is None:
        return None
    return _of_endpoint(row, f"notice to its owners: {found.kind}"), row.id


async def _subscription(connection: AsyncConnection, id_: str) -> _Found:
    row = await subscriptions.get(connection, id_)
    if row is None:
        return None
    hit = Hit(
        kind="subscription",
        id=id_,
        title=", ".join(row.events),
        detail=row.endpoint_id,
        tenant_id=row.tenant_id,
        shown_with=row.endpoint_id,
    )
    return hit, row.endpoint_id


async def _tenant(connection: AsyncConnection, id_: str) -> _Found:
    row = await tenants.get(connection, id_)
    return None if row is None else (Hit("tenant", id_, row.name, tenant_id=id_), None)


async def _source(connection: AsyncConnection, id_: str) -> _Found:
    row = await sources.get(connection, id_)
    if row is None:
        return None
    return Hit("source", id_, row.name, row.provider, tenant_id=row.tenant_id), None


async def _inbox_entry(connection: AsyncConnection, id_: str) -> _Found:
    row = (await inbox_entries.summaries(connection, [id_])).get(id_)
    return None if row is None else (of_inbox_entry(row), None)


def of_inbox_entry(row: inbox_entries.EntrySummary) -> Hit:
    """Return the hit of a received request."""
    detail = f"{row.status}; {row.key}"
    return Hit("inbox_entry", row.id, row.event_type, detail, tenant_id=row.tenant_id)


async def _job(connection: AsyncConnection, id_: str) -> _Found:
    row = await jobs.get(connection, id_)
    if row is None:
        return None
    hit = Hit("job", id_, f"{row.kind}: {row.action}", row.status, tenant_id=row.tenant_id)
    return hit, row.filter.get("endpoint_id")


async def _api_key(connection: AsyncConnection, id_: str) -> _Found:
    row = await api_keys.get(connection, id_)
    if row is None:
        return None
    return Hit("api_key", id_, row.name, row.scope, tenant_id=row.tenant_id), None


async def _audit_entry(connection: AsyncConnection, id_: str) -> _Found:
    c = AuditEntry.__table__.c
    columns = (c.action, c.resource_id, c.tenant_id)
    row = (await connection.execute(select(*columns).where(c.id == id_))).first()
    if row is None:
        return None
    hit = Hit(
        kind="audit_entry",
        id=id_,
        title=row.action,
        detail=row.resource_id,
        tenant_id=row.tenant_id,
        shown_with=row.resource_id,
    )
    return hit, None


async def _retention_run(connection: AsyncConnection, id_: str) -> _Found:
    c = RetentionRun.__table__.c
    status = (await connection.execute(select(c.status).where(c.id == id_))).scalar()
    return None if status is None else (Hit("retention_run", id_, "retention run", status), None)


_FINDS: Final[Mapping[Prefix, Callable[[AsyncConnection, str], Awaitable[_Found]]]] = {
    "dlv": _message,
    "att": _attempt,
    "ep": _endpoint,
    "ntc": _notice,
    "sub": _subscription,
    "tnt": _tenant,
    "src": _source,
    "inb": _inbox_entry,
    "job": _job,
    "key": _api_key,
    "aud": _audit_entry,
    "ret": _retention_run,
}
