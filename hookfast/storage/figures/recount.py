"""Counts deliveries and attempts again, from their rows, and compares that with what was counted
when they were recorded. Both are read in one state of the database, so that a difference is a fault
and never a change in between."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.facts import Trigger
from hookfast.deliveries.figures import Key, Owner, State, Tally, minute_of_id
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


async def differences(database: Database) -> dict[Key, int]:
    """Return by how much each figure and gauge is higher than the rows say; empty if all agree.
    Reads every row. Retention must not have deleted any, and no hour may be added up yet. Ends are
    not compared: a row does not know that it had ended before it was sent again."""
    tally = Tally()
    async with database.read() as connection:
        await folding.freeze(connection)
        await count_rows(connection, tally)
        found = await _counted(connection)
    for key, number in tally.numbers():
        found[_comparable(key)] -= number
    return {
        key: number for key, number in found.items() if number and not key.kind.startswith(_ENDED)
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
        owner = Owner(row.tenant_id, row.endpoint_id, row.event_type)
        owners[row.id] = owner
        state = State(
            DeliveryStatus(row.status), row.reason, row.finished_at, row.place == Place.QUEUED
        )
        tally.delivery(owner, minute_of_id(row.id), None, state)
        if row.finished_at is not None:
            first = row.status == DeliveryStatus.DELIVERED and not row.round
            due = row.deliver_at or row.created_at
            tally.ended(owner, state, took=row.finished_at - due if first else None)
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


async def _counted(connection: AsyncConnection) -> Counter[Key]:
    """Return what was counted, by endpoint."""
    counted: Counter[Key] = Counter()
    for row in await connection.execute(select(_GAUGES)):
        key = Key(True, row.at, row.tenant_id, row.endpoint_id, row.event_type, row.kind, -1)
        counted[key] += row.number
    for total in await totals.differences(connection):  # with the scope in the endpoint's place
        counted[Key(True, 0, "", total["scope"], "", total["kind"], -1)] -= total["number"]
    for row in await connection.execute(
        select(_FIGURES).where(_FIGURES.c.scope.startswith("ep_"), _FIGURES.c.event_type == "")
    ):
        key = Key(False, row.at, "", row.scope, "", row.kind, row.bucket)
        counted[key] += row.number
    for row in await connection.execute(select(_ENTRIES)):
        key = Key(
            *(row.gauge, row.at, row.tenant_id, row.endpoint_id, row.event_type, row.kind),
            row.bucket,
        )
        counted[_comparable(key)] += row.number
    return counted


def _comparable(key: Key) -> Key:
    """Return the key of a figure as `figures` has it for an endpoint: without tenant and type."""
    return key if key.gauge else key._replace(tenant_id="", event_type="")
