"""Counts deliveries and attempts again, from their rows, and compares that with what was counted
when they were recorded. Both are read in one state of the database, so that a difference is a fault
and never a change in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.facts import Trigger
from hookfast.deliveries.figures import (
    NO_BUCKET,
    Key,
    Owner,
    State,
    Tally,
    hour_of,
    minute_of_id,
)
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.counting import folding, totals
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt, Delivery, Figure, FigureEntry, Gauge

_D = Delivery.__table__.c
_A = Attempt.__table__.c
_FIGURES: Table = Figure.__table__
_GAUGES: Table = Gauge.__table__
_ENTRIES: Table = FigureEntry.__table__
_ENDED: Final = "ended:"


async def differences(database: Database, *, ends: bool = False) -> dict[Key, int]:
    """Return by how much each figure and gauge is higher than the rows say; empty if all agree.
    The key of a figure has its scope in the endpoint's place.

    Reads every row. Retention must not have deleted any, and no hour may be added up yet. Ends are
    compared with `ends`: each row's last end must be counted, but a row does not know how often it
    had ended before it was sent again, so there may be more."""
    tally = Tally()
    async with database.read() as connection:
        await folding.freeze(connection)
        await count_rows(connection, tally)
        found = await _counted(connection)
    for key, number in tally.numbers():
        for one in rows_of(key):
            found[one] -= number
    return {
        key: number
        for key, number in found.items()
        if number and (ends or not key.kind.startswith(_ENDED))
    }


async def count_rows(connection: AsyncConnection, tally: Tally) -> None:
    """Count all deliveries and attempts by their rows, as if each had just been recorded."""
    owners: dict[str, Owner] = {}
    for row in await connection.execute(
        select(
            *(_D.id, _D.tenant_id, _D.endpoint_id, _D.event_type, _D.status, _D.reason),
            *(_D.finished_at, _D.place, _D.round, _D.created_at, _D.deliver_at),
        )
    ):
        owners[row.id] = count_delivery(tally, row)
    for attempt in await connection.execute(
        select(
            *(_A.delivery_id, _A.started_at, _A.result, _A.status_code, _A.duration_ms, _A.trigger)
        )
    ):
        tally.attempt(
            owners[attempt.delivery_id],
            attempt.started_at,
            Result(attempt.result),
            attempt.status_code,
            attempt.duration_ms,
            first=attempt.trigger == Trigger.FIRST,
        )


def count_delivery(tally: Tally, row: Any) -> Owner:
    """Count a delivery by its row, and return whom it counts for."""
    owner = Owner(row.tenant_id, row.endpoint_id, row.event_type)
    state = State(
        DeliveryStatus(row.status), row.reason, row.finished_at, row.place == Place.QUEUED
    )
    tally.delivery(owner, minute_of_id(row.id), None, state)
    if row.finished_at is not None:
        first = row.status == DeliveryStatus.DELIVERED and not row.round
        due = row.deliver_at or row.created_at
        tally.ended(owner, state, took=row.finished_at - due if first else None)
    return owner


def rows_of(key: Key) -> Iterator[Key]:
    """Yield the keys of the rows that a counted number is in, as `differences` has them: a gauge's
    own, and nine of a figure's, for everything, its tenant and its endpoint: by the minute, by the
    hour, and by the hour and event type."""
    if key.gauge:
        yield key
        return
    hour = hour_of(key.at)
    for scope in (folding.EVERYTHING, key.tenant_id, key.endpoint_id):
        yield Key(False, key.at, "", scope, "", key.kind, key.bucket)
        yield Key(False, hour, "", folding.BY_HOUR + scope, "", key.kind, key.bucket)
        yield Key(False, hour, "", scope + folding.BY_TYPE, key.event_type, key.kind, NO_BUCKET)


async def _counted(connection: AsyncConnection) -> Counter[Key]:
    """Return what was counted: the rows of gauges and figures, with the entries added up."""
    counted: Counter[Key] = Counter()
    for row in await connection.execute(select(_GAUGES)):
        key = Key(
            *(True, row.at, row.tenant_id, row.endpoint_id, row.event_type, row.kind), NO_BUCKET
        )
        counted[key] += row.number
    for total in await totals.differences(connection):  # with the scope in the endpoint's place
        counted[Key(True, 0, "", total["scope"], "", total["kind"], NO_BUCKET)] -= total["number"]
    for row in await connection.execute(select(_FIGURES)):
        key = Key(False, row.at, "", row.scope, row.event_type, row.kind, row.bucket)
        counted[key] += row.number
    for row in await connection.execute(select(_ENTRIES)):
        key = Key(
            *(row.gauge, row.at, row.tenant_id, row.endpoint_id, row.event_type, row.kind),
            row.bucket,
        )
        for one in rows_of(key):
            counted[one] += row.number
    return counted
