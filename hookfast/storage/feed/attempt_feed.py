"""Attempts across deliveries: newest first, and for tails in the order in which they were recorded.

An attempt's id has the time at which it began, and its row is committed after it has ended. So a
tail by id would miss slow attempts; it reads by `position` instead (see `feed_position`).

A page scans a bounded number of attempts, one range of one index, and checks the filter on each. So
it may have fewer attempts than requested, or none, and be followed by others.

Of a filter, `answer`, `since` and `until` refer to the attempt and to when it began, the others to
its delivery as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, String, Subquery, Table, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at, time_of
from hookfast.storage.database.feed_position import horizon, newest
from hookfast.storage.database.keyset import created_between
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.deliveries import answers
from hookfast.storage.deliveries.deliveries import FILTERED, DeliveryFilter
from hookfast.storage.feed.cursor import AttemptCursor
from hookfast.storage.tables import Attempt, Delivery

_ATTEMPTS: Table = Attempt.__table__
_DELIVERIES: Table = Delivery.__table__
_A = _ATTEMPTS.c
_D = _DELIVERIES.c

SCAN_MOST: Final = 2_000
"""The most attempts that one page scans."""
_CLOCK_DIFFERENCE: Final = timedelta(days=1)
_ATTEMPT = (
    *(_A.id, _A.position, _A.delivery_id, _A.number, _A.trigger, _A.started_at),
    *(_A.duration_ms, _A.result, _A.status_code, _A.error),
)
_DELIVERY = (
    *(_D.event_id, _D.event_type, _D.subscription_id, _D.endpoint_id, _D.tenant_id),
    *(_D.status, _D.reason, _D.attempts, _D.next_attempt_at),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPage:
    """Attempts, newest first, each with columns of its delivery. The next page is beyond the id
    `scanned_to`; None: there is none."""

    rows: Sequence[Any]
    scanned_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPage:
    """Attempts in the order in which they were recorded, and the cursor of the next page. `more`:
    there are more to read now."""

    rows: Sequence[Any]
    cursor: AttemptCursor
    more: bool


async def list_page(
    connection: AsyncConnection, chosen: DeliveryFilter, *, after: str | None, limit: int
) -> AttemptPage:
    """Return the newest `limit` attempts that match, beyond the id `after`."""
    last = None
    if chosen.event_id is None:
        # first, because the newest attempts may change between two statements
        last = (await connection.execute(scan_end(chosen, after=after))).scalar_one_or_none()
    statement = page_statement(chosen, after=after, last=last, limit=limit + 1)
    rows = (await connection.execute(statement)).all()
    if len(rows) > limit:
        return AttemptPage(rows=rows[:limit], scanned_to=rows[limit - 1].id)
    return AttemptPage(rows=rows, scanned_to=last)


async def read_tail(
    connection: AsyncConnection,
    chosen: DeliveryFilter,
    *,
    after: AttemptCursor,
    limit: int,
    now: datetime,
) -> TailPage:
    """Return at most `limit` matching attempts recorded after `after`. No attempt is ever recorded
    before a cursor that was returned."""
    edge = await horizon(connection)  # first: the statements after it see all attempts below it
    last = (await connection.execute(tail_end(after, edge=edge))).first()
    until = None if last is None else AttemptCursor.of_event(last.position, last.id)
    statement = tail_statement(chosen, after=after, last=until, edge=edge, limit=limit + 1)
    rows = (await connection.execute(statement)).all()
    if len(rows) > limit:
        shown = rows[limit - 1]
        cursor = AttemptCursor.of_event(shown.position, shown.id)
        return TailPage(rows=rows[:limit], cursor=cursor, more=True)
    if until is not None:
        return TailPage(rows=rows, cursor=until, more=True)
    newest_read = edge - 1 if edge is not None else await newest(connection, _ATTEMPTS)
    position = max(after.position, newest_read)
    cursor = AttemptCursor(position, max(after.at, now))
    return TailPage(rows=rows, cursor=cursor, more=False)


async def end_cursor(connection: AsyncConnection, *, now: datetime) -> AttemptCursor:
    """Return the cursor after all attempts that a tail can read now."""
    edge = await horizon(connection)
    return AttemptCursor(await newest(connection, _ATTEMPTS) if edge is None else edge - 1, now)


def scan_end(chosen: DeliveryFilter, *, after: str | None) -> Select[str]:
    """Return the statement for the last attempt that a page scans; without a row: to the end."""
    return _newest(select(_A.id), chosen, after=after).offset(SCAN_MOST - 1).limit(1)


def page_statement(
    chosen: DeliveryFilter, *, after: str | None, last: str | None, limit: int
) -> Select[Any]:
    """Return the statement for the attempts of a page, which scans down to the id `last`."""
    if chosen.event_id is not None:
        return _of_event(chosen, chosen.event_id, after=after, limit=limit)
    scanned = _newest(select(*_ATTEMPT), chosen, after=after)
    if last is not None:
        scanned = scanned.where(_A.id >= last)
    # The limit has the planners read these first, in this order; it leaves room for attempts that
    # were recorded since `last` was read.
    found = scanned.limit(2 * SCAN_MOST).subquery()
    return _with_deliveries(found, chosen).order_by(found.c.id.desc()).limit(limit)


def tail_end(after: AttemptCursor, *, edge: int | None) -> Select[Any]:
    """Return the statement for the last attempt that a page of a tail scans."""
    return _recorded(select(_A.position, _A.id), after, edge=edge).offset(SCAN_MOST - 1).limit(1)


def tail_statement(
    chosen: DeliveryFilter,
    *,
    after: AttemptCursor,
    last: AttemptCursor | None,
    edge: int | None,
    limit: int,
) -> Select[Any]:
    """Return the statement for the attempts of a page of a tail, which scans up to `last`."""
    scanned = _recorded(select(*_ATTEMPT), after, edge=edge)
    if last is not None:
        scanned = scanned.where(tuple_(_A.position, _A.id) <= _place(last))
    found = scanned.limit(SCAN_MOST).subquery()
    times = created_between(found.c.id, "att", chosen.since, chosen.until)
    statement = _with_deliveries(found, chosen).where(*times)
    return statement.order_by(found.c.position, found.c.id).limit(limit)


def _newest(statement: Select[Any], chosen: DeliveryFilter, *, after: str | None) -> Select[Any]:
    statement = statement.where(*created_between(_A.id, "att", chosen.since, chosen.until))
    if after is not None:
        statement = statement.where(_A.id < after)
    return statement.order_by(_A.id.desc())


def _of_event(
    chosen: DeliveryFilter, event_id: str, *, after: str | None, limit: int
) -> Select[Any]:
    """Return the statement for attempts of one event, which are found by its deliveries."""
    id_ = Residual(_A.id)
    found: list[ColumnElement[bool]] = list(created_between(id_, "att", chosen.since, chosen.until))
    if after is not None:
        found.append(id_ < after)
    emitted_at = time_of(event_id)
    if emitted_at is not None:  # PostgreSQL skips the partitions of the days before
        found.append(id_ >= first_id_at("att", emitted_at - _CLOCK_DIFFERENCE))
    if chosen.answer is not None:
        found.append(answers.matches(chosen.answer, _A.result, _A.status_code))
    joined = _DELIVERIES.join(_ATTEMPTS, _A.delivery_id == _D.id)
    statement = select(*_ATTEMPT, *_DELIVERY).select_from(joined)
    statement = statement.where(_D.event_id == event_id, *_checks(chosen, but="event_id"), *found)
    return statement.order_by(_A.id.desc()).limit(limit)


def _recorded(statement: Select[Any], after: AttemptCursor, *, edge: int | None) -> Select[Any]:
    if after.id is None:
        statement = statement.where(_A.position > after.position)
    else:
        statement = statement.where(tuple_(_A.position, _A.id) > _place(after))
    if edge is not None:
        statement = statement.where(_A.position < edge)
    statement = statement.where(Residual(_A.id) >= after.first_id)
    return statement.order_by(_A.position, _A.id)


def _place(cursor: AttemptCursor) -> ColumnElement[Any]:
    return tuple_(literal(cursor.position, _A.position.type), literal(cursor.id, String()))


def _with_deliveries(found: Subquery, chosen: DeliveryFilter) -> Select[Any]:
    """Join the attempts with their deliveries, and keep those that match the filter."""
    joined = found.join(_DELIVERIES, _D.id == found.c.delivery_id)
    statement = select(*found.c, *_DELIVERY).select_from(joined).where(*_checks(chosen))
    if chosen.answer is not None:
        statement = statement.where(
            answers.matches(chosen.answer, found.c.result, found.c.status_code)
        )
    return statement


def _checks(chosen: DeliveryFilter, *, but: str = "") -> list[ColumnElement[bool]]:
    given = [(name, getattr(chosen, name)) for name in FILTERED if name != but]
    return [Residual(_D[name]) == value for name, value in given if value is not None]
