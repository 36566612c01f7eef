"""Endpoints at a glance, many at once: their circuits, and how their newest deliveries have gone.
Each is a few look-ups in indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, Table, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import State
from hookfast.storage.tables import Delivery, EndpointHealth

NEWEST = 30
"""Deliveries of each endpoint that are looked at."""

_H = EndpointHealth.__table__.c
_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSummary:
    """One endpoint: its circuit, its last error while it fails, and the statuses of its newest
    deliveries, the oldest of them first."""

    circuit: State = State.CLOSED
    last_error: str | None = None
    last_failure_at: datetime | None = None
    newest: Sequence[DeliveryStatus] = ()


async def read(
    connection: AsyncConnection, endpoint_ids: Sequence[str]
) -> Mapping[str, EndpointSummary]:
    """The endpoints with these ids; one that does not exist had no deliveries."""
    if not endpoint_ids:
        return {}
    health = await connection.execute(
        select(
            _H.endpoint_id,
            _H.circuit,
            _H.consecutive_failures,
            _H.last_error,
            _H.last_failure_at,
        ).where(_H.endpoint_id.in_(endpoint_ids))
    )
    ill = {row.endpoint_id: row for row in health}
    statuses: dict[str, list[DeliveryStatus]] = {each: [] for each in endpoint_ids}
    for endpoint_id, _, status in await connection.execute(newest_statement(endpoint_ids)):
        statuses[endpoint_id].append(DeliveryStatus(status))
    found = {}
    for endpoint_id in endpoint_ids:
        row = ill.get(endpoint_id)
        fails = row is not None and row.consecutive_failures > 0
        found[endpoint_id] = EndpointSummary(
            circuit=State.CLOSED if row is None else State(row.circuit),
            last_error=row.last_error if row is not None and fails else None,
            last_failure_at=row.last_failure_at if row is not None and fails else None,
            newest=statuses[endpoint_id],
        )
    return found


def newest_statement(endpoint_ids: Sequence[str]) -> Select[str, str, str]:
    """The statement for the newest deliveries of each, by their ids."""
    each = [
        select(_D.endpoint_id, _D.id, _D.status)
        .where(_D.endpoint_id == endpoint_id)
        .order_by(_D.id.desc())
        .limit(NEWEST)
        .subquery()
        for endpoint_id in endpoint_ids
    ]
    every = union_all(*(select(one) for one in each)).subquery()
    return select(every.c.endpoint_id, every.c.id, every.c.status).order_by(every.c.id)
