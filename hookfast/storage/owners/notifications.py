"""Notifications of changes: notices to owners and operational events to operators, added in the
transaction of the change, so that neither can be lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Row, RowMapping, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import rfc3339
from hookfast.endpoints.circuit import Cause, Circuit, Policy, State
from hookfast.endpoints.short_url import short_url
from hookfast.events.operational import Kind, OperationalEvent
from hookfast.logs.kind import Kind as LogKind
from hookfast.owners.notice import NoticeKind
from hookfast.storage.circuits.circuits import EndpointCircuit
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.events import operational
from hookfast.storage.owners import notices
from hookfast.storage.tables import Delivery, Event
from hookfast.telemetry.traceparent import trace_id

log = structlog.get_logger()

_DELIVERIES: Table = Delivery.__table__
_EVENTS: Table = Event.__table__
_DEAD_AT_ONCE = 1_000  # parameters of a statement; a broadcast may have more dead letters


async def circuit_changed(
    connection: AsyncConnection,
    before: EndpointCircuit,
    after: Circuit,
    *,
    policy: Policy,
    now: datetime,
) -> None:
    """Notify owners and operators of a circuit that opened or closed. Opening again while draining
    is part of the same outage, of which they know."""
    then = before.circuit
    if then.state is after.state:
        return
    failed_first = then.state is State.CLOSED or then.cause is Cause.RESUMED
    if after.state is State.OPEN and after.cause is Cause.FAILURES and failed_first:
        await notify_owners(connection, before, after, NoticeKind.OPENED, policy=policy, now=now)
        await _emit(connection, before, Kind.CIRCUIT_OPENED, _outage(after), now=now)
    if after.state is State.CLOSED and after.cause is Cause.FAILURES:
        await notify_owners(connection, before, after, NoticeKind.RECOVERED, policy=policy, now=now)
        data = _outage(after) | {"drained": after.drained}
        await _emit(connection, before, Kind.CIRCUIT_CLOSED, data, now=now)


async def endpoint_disabled(
    connection: AsyncConnection,
    before: EndpointCircuit,
    after: Circuit,
    *,
    reason: str,
    now: datetime,
) -> None:
    """Notify operators of an endpoint that was disabled, and its owners if no person requested
    it."""
    if after.cause is not Cause.DISABLED:
        await notify_owners(connection, before, after, NoticeKind.DISABLED, reason=reason, now=now)
    data = _outage(after) | {"reason": reason}
    await _emit(connection, before, Kind.ENDPOINT_DISABLED, data, now=now)


async def endpoint_enabled(
    connection: AsyncConnection, endpoint: EndpointCircuit, *, now: datetime
) -> None:
    """Notify operators of an endpoint that was enabled."""
    await _emit(connection, endpoint, Kind.ENDPOINT_ENABLED, {}, now=now)


async def deliveries_dead(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, now: datetime
) -> None:
    """Notify operators of deliveries that ended without success, and log these after the commit."""
    for start in range(0, len(delivery_ids), _DEAD_AT_ONCE):
        some = delivery_ids[start : start + _DEAD_AT_ONCE]
        await _some_deliveries_dead(connection, some, now=now)


async def _some_deliveries_dead(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, now: datetime
) -> None:
    c = _DELIVERIES.c
    names = ("endpoint_id", "subscription_id", "event_id", "event_type", "status", "reason")
    found = await connection.execute(
        select(c.id, c.tenant_id, c.attempts, *(c[name] for name in names))
        .where(c.id.in_(delivery_ids))
        .order_by(c.id)
    )
    rows = found.mappings().all()
    origins = await _origins(connection, {row["event_id"] for row in rows})
    after_commit(connection, lambda: _log_dead(rows, origins))
    events = [
        OperationalEvent(
            kind=Kind.DELIVERY_DEAD,
            tenant_id=row["tenant_id"],
            data={
                "delivery_id": row["id"],
                "tenant_id": row["tenant_id"],
                "attempt_count": row["attempts"],
                **{name: row[name] for name in names},
            },
            hops=0 if (origin := origins.get(row["event_id"])) is None else origin.hops,
        )
        for row in rows
    ]
    await operational.emit(connection, events, now=now)


def _log_dead(rows: Iterable[RowMapping], origins: Mapping[str, Row[Any, Any, Any]]) -> None:
    names = ("event_id", "endpoint_id", "tenant_id", "event_type", "status", "reason", "attempts")
    for row in rows:
        line = {"delivery_id": row["id"], **{name: row[name] for name in names}}
        if (origin := origins.get(row["event_id"])) is not None:
            line["trace_id"] = trace_id(origin.traceparent)
        log.info("A delivery became a dead letter.", kind=LogKind.DEAD_LETTER, **line)


async def _origins(
    connection: AsyncConnection, event_ids: Collection[str]
) -> dict[str, Row[Any, Any, Any]]:
    """Return the hops and traces of these events, by id, without the events that are no longer
    kept."""
    c = _EVENTS.c
    rows = await connection.execute(
        select(c.id, c.hops, c.traceparent).where(c.id.in_(sorted(event_ids)))
    )
    return {row.id: row for row in rows}


async def notify_owners(
    connection: AsyncConnection,
    endpoint: EndpointCircuit,
    after: Circuit,
    kind: NoticeKind,
    *,
    policy: Policy | None = None,
    reason: str | None = None,
    now: datetime,
) -> int:
    """Add a notice for every owner of an endpoint, once per episode and kind, and return how many
    were added. With `policy` it also says when the endpoint will be disabled."""
    disable_at = None
    if policy is not None and after.first_failure_at is not None:
        disable_at = after.first_failure_at + policy.disable_after
    facts = {
        "since": _time(after.first_failure_at or after.opened_at),
        "last_error": after.last_error,
        "failures": after.consecutive_failures,
        "drained": after.drained,
        "reason": reason,
        "disable_at": _time(disable_at),
    }
    return await notices.add(
        connection,
        endpoint_id=endpoint.endpoint_id,
        episode=after.episode,
        kind=kind,
        facts=facts,
        at=now,
    )


async def _emit(
    connection: AsyncConnection,
    endpoint: EndpointCircuit,
    kind: Kind,
    data: dict[str, Any],
    *,
    now: datetime,
) -> None:
    about = {
        "endpoint_id": endpoint.endpoint_id,
        "tenant_id": endpoint.tenant_id,
        # short, because receivers of operational events show them to many; None if it is polled
        "url": short_url(endpoint.url) if endpoint.url else None,
    }
    event = OperationalEvent(kind=kind, tenant_id=endpoint.tenant_id, data=about | data)
    await operational.emit(connection, [event], now=now)


def _outage(circuit: Circuit) -> dict[str, Any]:
    return {
        "episode": circuit.episode,
        "cause": circuit.cause,
        "opened_at": _time(circuit.opened_at),
        "failing_since": _time(circuit.first_failure_at),
        "consecutive_failures": circuit.consecutive_failures,
        "last_error": circuit.last_error,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)
