"""Summaries of many endpoints: their last errors, and the statuses of their newest deliveries. Each
takes a few index look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.tables import Delivery, EndpointHealth

MAX_NEWEST = 30
"""How many deliveries of each endpoint are read."""

_H = EndpointHealth.__table__.c
_D = Delivery.__table__.c


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSummary:
    """One endpoint's last error while it is failing, and the statuses of its newest deliveries,
    oldest first."""

    last_error: str | None = None
    last_failure_at: datetime | None = None
    newest: Sequence[DeliveryStatus] = ()


async def read(
    connection: AsyncConnection, endpoint_ids: Sequence[str]
) -> Mapping[str, EndpointSummary]:
    """Return the summaries of these endpoints; an unknown endpoint has no deliveries."""
    if not endpoint_ids:
        return {}
    health = await connection.execute(
        select(
            _H.endpoint_id,
            _H.consecutive_failures,
            _H.last_error,
            _H.last_failure_at,
        ).where(_H.endpoint_id.in_(endpoint_ids))
    )
    health_of = {row.endpoint_id: row for row in health}
    statuses: dict[str, list[DeliveryStatus]] = {each: [] for each in endpoint_ids}
    for row in await connection.execute(newest_statement(endpoint_ids)):
        statuses[row.endpoint_id].append(DeliveryStatus(row.status))
    summaries = {}
    for endpoint_id in endpoint_ids:
        row = health_of.get(endpoint_id)
        fails = row is not None and row.consecutive_failures > 0
        summaries[endpoint_id] = EndpointSummary(
            last_error=row.last_error if row is not None and fails else None,
            last_failure_at=row.last_failure_at if row is not None and fails else None,
            newest=statuses[endpoint_id],
        )
    return summaries


def newest_statement(endpoint_ids: Sequence[str]) -> Select[Any]:
    """Select the newest deliveries of each endpoint, ordered by their ids."""
    of_each = [
        select(_D.endpoint_id, _D.id, _D.status)
        .where(_D.endpoint_id == endpoint_id)
        .order_by(_D.id.desc())
        .limit(MAX_NEWEST)
        .subquery()
        for endpoint_id in endpoint_ids
    ]
    newest = union_all(*map(select, of_each)).subquery()
    return select(newest).order_by(newest.c.id)
