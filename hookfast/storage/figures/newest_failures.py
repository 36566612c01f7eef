"""The deliveries that failed last, grouped by endpoint and cause: dead letters, and deliveries that
fail now and wait to be sent again. Few rows are read, by the indexes of undelivered deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.deliveries import dead_letters, deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.tables import Delivery, Endpoint

MAX_READ = 200
"""The most dead letters, and the most retrying deliveries, that are read."""
MAX_HELD = 25
"""The most held deliveries of one endpoint that are read."""

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c
_E = Endpoint.__table__.c


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Deliveries of one endpoint that failed for one cause. The other members are those of the one
    that failed last."""

    tenant_id: str
    endpoint_id: str
    endpoint_name: str
    count: int
    has_more: bool
    """Whether reading stopped at a limit, so that there may be more."""
    delivery_id: str
    event_type: str
    status: DeliveryStatus
    reason: str | None
    last_error: str | None
    at: datetime


async def read(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    since: datetime,
    outages: Sequence[str],
    limit: int,
) -> list[FailureGroup]:
    """Return at most `limit` groups, the latest failure first: dead letters that ended at `since`
    or later, retrying deliveries, and those held that failed before. `outages` are the endpoints
    whose held deliveries are read."""
    if tenant_id is None:
        newest = (
            select(_DELIVERIES)
            .where(dead_letters.IS_DEAD, _D.finished_at >= since)
            .order_by(_D.finished_at.desc())
            .limit(MAX_READ)
        )
        dead = await fetch_all(connection, newest, Delivery)
    else:
        chosen = DeliveryFilter(tenant_id=tenant_id)
        dead = await dead_letters.list_page(connection, chosen, after=None, limit=MAX_READ)
    failing = DeliveryFilter(status=DeliveryStatus.RETRYING, tenant_id=tenant_id)
    retrying = await deliveries.list_page(connection, failing, after=None, limit=MAX_READ)
    held = await _held(connection, outages) if outages else []
    groups = _grouped(
        [each for each in dead if each.finished_at is not None and each.finished_at >= since]
        + retrying
        + [each for each in held if each.attempts]
    )[:limit]
    full = {
        status
        for rows in (dead, retrying)
        if len(rows) == MAX_READ
        for status in {each.status for each in rows}
    }
    names = await _names(connection, {newest.endpoint_id for newest, _ in groups})
    return [
        _group(
            newest,
            count,
            names,
            has_more=newest.status in full
            or (newest.status == DeliveryStatus.HELD and count == MAX_HELD),
        )
        for newest, count in groups
    ]


async def _held(connection: AsyncConnection, endpoint_ids: Sequence[str]) -> list[Delivery]:
    """Return the oldest held deliveries of each of these endpoints: the newer ones were created
    after its circuit opened, and were never tried."""
    each = [
        select(_DELIVERIES)
        .where(
            *deliveries.conditions(
                DeliveryFilter(status=DeliveryStatus.HELD, endpoint_id=endpoint_id)
            )
        )
        .order_by(_D.id)
        .limit(MAX_HELD)
        .subquery()
        for endpoint_id in endpoint_ids
    ]
    every = select(union_all(*(select(one) for one in each)).subquery())
    return await fetch_all(connection, every, Delivery)


def _grouped(found: Iterable[Delivery]) -> list[tuple[Delivery, int]]:
    """Return the latest failure of each endpoint and cause, and how many there are."""
    latest: dict[tuple[str, str | None, str | None], tuple[Delivery, int]] = {}
    for each in sorted(found, key=_failed_at, reverse=True):
        ended = DeliveryStatus(each.status).finished
        cause = (each.endpoint_id, each.reason if ended else None, each.last_error)
        newest, count = latest.get(cause, (each, 0))
        latest[cause] = (newest, count + 1)
    return list(latest.values())


def _failed_at(delivery: Delivery) -> datetime:
    return delivery.finished_at or delivery.updated_at


async def _names(connection: AsyncConnection, endpoint_ids: set[str]) -> dict[str, str]:
    """Return the names of endpoints by id, those of deleted ones too."""
    if not endpoint_ids:
        return {}
    statement = select(_E.id, _E.description, _E.url).where(_E.id.in_(endpoint_ids))
    rows = await connection.execute(statement)
    return {endpoint_id: description or url for endpoint_id, description, url in rows}


def _group(newest: Delivery, count: int, names: dict[str, str], *, has_more: bool) -> FailureGroup:
    return FailureGroup(
        tenant_id=newest.tenant_id,
        endpoint_id=newest.endpoint_id,
        endpoint_name=names.get(newest.endpoint_id) or newest.endpoint_id,
        count=count,
        has_more=has_more,
        delivery_id=newest.id,
        event_type=newest.event_type,
        status=DeliveryStatus(newest.status),
        reason=newest.reason,
        last_error=newest.last_error,
        at=_failed_at(newest),
    )
