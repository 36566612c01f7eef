"""Retention's sweeps: delete the old rows of each table, in batches that hold nobody up.

`SWEEPS` says of each table which rows are old and what keeps an old row. Each batch is a
transaction of its own, which also moves the sweep's cursor and adds to its counts
(`retention_runs`): a crash between two batches neither loses nor doubles a count. When to delete is
decided elsewhere; the cutoffs come with the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Select, Table, and_, delete, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import Prefix, first_id_at
from hookfast.owners.notice import NoticeStatus
from hookfast.storage.audit import audit_log
from hookfast.storage.inbox import inbox_keys
from hookfast.storage.retention import daily_dead_letters
from hookfast.storage.tables import (
    Attempt,
    AuditEntry,
    Delivery,
    Event,
    IdempotencyKey,
    InboxEntry,
    InboxKey,
    Job,
    Notice,
)

_DELIVERIES: Table = Delivery.__table__
_AUDIT: Table = AuditEntry.__table__
_INBOX_KEYS: Table = InboxKey.__table__
_D = _DELIVERIES.c

Cutoffs = Mapping[str, datetime | None]
"""Rows from before this time are old, by the name of the sweep. None: all rows are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The result of one batch: the rows deleted (in a dry run: that would be), the old rows kept,
    where the next batch begins, and whether there may be one."""

    deleted: int
    kept: int
    cursor: str | None
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdSweep:
    """Deletes the old rows of a table that is read by an id, oldest first, each row once.

    `may_go` is the condition under which an old row is deleted. `needed` selects those of some rows
    that rows of another table need. Both are checked with the rows locked, so that nobody is about
    to use them. `stays` is the condition of rows that the whole run leaves, where another sweep
    deletes some of them; for dry runs.
    """

    name: str
    table: Table
    column: str = "id"
    prefix: Prefix
    may_go: Callable[[Cutoffs], ColumnElement[bool]] | None = None
    needed: Callable[[Cutoffs, Sequence[str], bool], Select[str]] | None = None
    stays: Callable[[Cutoffs], ColumnElement[bool]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirySweep:
    """Deletes the rows of a table that are old by something other than their id. `expire` gets the
    cutoff, the most rows to delete and the time now, and returns how many it deleted."""

    name: str
    table: Table
    is_old: Callable[[datetime], ColumnElement[bool]]
    expire: Callable[[AsyncConnection, datetime, int, datetime], Awaitable[int]]


async def sweep_batch(
    connection: AsyncConnection,
    name: str,
    cutoffs: Cutoffs,
    *,
    after: str | None,
    limit: int,
    dry_run: bool,
    now: datetime,
) -> Batch:
    """Read the next old rows of a sweep, at most `limit`, and delete those that nothing keeps."""
    sweep, before = SWEEPS[name], cutoffs[name]
    if before is None:
        return Batch(deleted=0, kept=0, cursor=after, more=False)
    if isinstance(sweep, ExpirySweep):
        if dry_run:
            old = select(func.count()).select_from(sweep.table).where(sweep.is_old(before))
            count = (await connection.execute(old)).scalar_one()
            return Batch(deleted=count, kept=0, cursor=None, more=False)
        deleted = await sweep.expire(connection, before, limit, now)
        return Batch(deleted=deleted, kept=0, cursor=None, more=deleted == limit)
    key = sweep.table.c[sweep.column]
    page = select(key).where(key < first_id_at(sweep.prefix, before))
    if after is not None:
        page = page.where(key > after)
    ids = list((await connection.execute(page.order_by(key).limit(limit))).scalars())
    if not ids:
        return Batch(deleted=0, kept=0, cursor=after, more=False)
    if dry_run:
        deleted, kept = await _count(connection, sweep, ids, cutoffs)
    else:
        deleted = await _delete(connection, sweep, ids, cutoffs)
        kept = len(ids) - deleted
    return Batch(deleted=deleted, kept=kept, cursor=ids[-1], more=len(ids) == limit)


async def _count(
    connection: AsyncConnection, sweep: IdSweep, ids: Sequence[str], cutoffs: Cutoffs
) -> tuple[int, int]:
    """Return how many of these rows a run would delete, and how many it would keep."""
    if sweep.needed is not None:
        needed = await connection.execute(sweep.needed(cutoffs, ids, True))
        kept = len(set(needed.scalars()))
        return len(ids) - kept, kept
    if sweep.may_go is None:
        return len(ids), 0
    count = select(func.count()).where(sweep.table.c[sweep.column].in_(ids))
    deleted = (await connection.execute(count.where(sweep.may_go(cutoffs)))).scalar_one()
    if sweep.stays is None:
        return deleted, len(ids) - deleted
    staying = await connection.execute(count.where(sweep.stays(cutoffs)))
    return deleted, staying.scalar_one()


async def _delete(
    connection: AsyncConnection, sweep: IdSweep, ids: Sequence[str], cutoffs: Cutoffs
) -> int:
    """Delete those of these rows that may go, and return how many were deleted."""
    key = sweep.table.c[sweep.column]
    if sweep.may_go is None and sweep.needed is None:
        # nobody changes these rows, so the range is enough
        span = key.between(ids[0], ids[-1])
        return (await connection.execute(delete(sweep.table).where(span))).rowcount
    going = set(ids)
    if connection.dialect.name == "postgresql":  # SQLite has one writer: this transaction
        # Rows that somebody has locked are skipped until the next run. What needs a row is read in
        # a statement of its own: it sees what was committed up to the lock.
        locking = select(key).where(key.in_(ids)).with_for_update(skip_locked=True)
        going = set((await connection.execute(locking)).scalars())
    if sweep.needed is not None:
        # not a NOT EXISTS in the DELETE: for that PostgreSQL may read the whole other table
        needed = await connection.execute(sweep.needed(cutoffs, sorted(going), False))
        going -= set(needed.scalars())
    deleting = delete(sweep.table).where(key.in_(sorted(going)))
    if sweep.may_go is not None:
        deleting = deleting.where(sweep.may_go(cutoffs))
    return (await connection.execute(deleting)).rowcount


def _ended_before(before: datetime) -> ColumnElement[bool]:
    return and_(_D.status.in_(["delivered", "cancelled"]), _D.finished_at < before)


def _ended(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """Return the condition for deliveries that ended before the cutoff, without dead letters, which
    have a cutoff of their own."""
    before = cutoffs["deliveries"]
    assert before is not None  # noqa: S101 - without a cutoff there is no batch
    return _ended_before(before)


def kept_deliveries(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """Return the condition for deliveries that a run leaves; dry runs count by it."""
    going: list[ColumnElement[bool]] = []
    if (ended := cutoffs["deliveries"]) is not None:
        going.append(and_(_ended_before(ended), _D.id < first_id_at("dlv", ended)))
    if (dead := cutoffs["dead_letters"]) is not None:
        going.append(daily_dead_letters.ended_before(dead))
    # An open delivery has no `finished_at`: the comparison is unknown, and NOT leaves it unknown.
    return or_(_D.finished_at.is_(None), ~or_(*going)) if going else true()


def kept_events(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """Return the condition for events that a run leaves; dry runs count by it."""
    before, c = cutoffs["events"], Event.__table__.c
    if before is None:
        return true()
    needing = select(_D.id).where(_D.event_id == c.id, kept_deliveries(cutoffs))
    return or_(c.id >= first_id_at("evt", before), needing.correlate(Event.__table__).exists())


def _with_deliveries(cutoffs: Cutoffs, ids: Sequence[str], dry_run: bool) -> Select[str]:
    """Select the events that have a delivery: an open one and a dead letter need the body, and so
    does a resend of a delivered one. A dry run ignores deliveries that the run would delete."""
    needed = select(_D.event_id).where(_D.event_id.in_(ids)).distinct()
    return needed.where(kept_deliveries(cutoffs)) if dry_run else needed


def _with_event(cutoffs: Cutoffs, ids: Sequence[str], dry_run: bool) -> Select[str]:
    """Select the received requests whose event is kept: it may be sent as it came in."""
    i, e = InboxEntry.__table__.c, Event.__table__.c
    needed = select(i.id).where(i.id.in_(ids), e.id == i.event_id)
    return needed.where(kept_events(cutoffs)) if dry_run else needed


def _not_pending(_: Cutoffs) -> ColumnElement[bool]:
    return Notice.__table__.c.status != NoticeStatus.PENDING.value


def _finished_jobs(cutoffs: Cutoffs) -> ColumnElement[bool]:
    return Job.__table__.c.finished_at < cutoffs["jobs"]


def _old_audit(before: datetime) -> ColumnElement[bool]:
    return _AUDIT.c.id < first_id_at("aud", before)


async def _expire_audit(
    connection: AsyncConnection, before: datetime, limit: int, now: datetime
) -> int:
    """Delete old entries in the one way that the triggers allow. Where there are none, do nothing:
    otherwise the horizon would move, and be logged, every night."""
    first = select(_AUDIT.c.id).where(_old_audit(before)).limit(1)
    if (await connection.execute(first)).first() is None:
        return 0
    return await audit_log.expire(connection, before=before, limit=limit, now=now)


SWEEPS: Final[Mapping[str, IdSweep | ExpirySweep]] = {
    sweep.name: sweep
    for sweep in (
        IdSweep(name="attempts", table=Attempt.__table__, prefix="att"),
        ExpirySweep(
            name="dead_letters",
            table=_DELIVERIES,
            is_old=daily_dead_letters.ended_before,
            expire=lambda connection, before, limit, _: daily_dead_letters.expire(
                connection, finished_before=before, limit=limit
            ),
        ),
        IdSweep(
            name="deliveries",
            table=_DELIVERIES,
            prefix="dlv",
            may_go=_ended,
            stays=kept_deliveries,
        ),
        IdSweep(
            name="idempotency_keys",
            table=IdempotencyKey.__table__,
            column="event_id",
            prefix="evt",
        ),
        IdSweep(name="events", table=Event.__table__, prefix="evt", needed=_with_deliveries),
        IdSweep(name="notices", table=Notice.__table__, prefix="ntc", may_go=_not_pending),
        IdSweep(name="jobs", table=Job.__table__, prefix="job", may_go=_finished_jobs),
        IdSweep(name="inbox", table=InboxEntry.__table__, prefix="inb", needed=_with_event),
        ExpirySweep(
            name="inbox_keys",  # each key says when it expires; the cutoff is the run's beginning
            table=_INBOX_KEYS,
            is_old=lambda before: _INBOX_KEYS.c.expires_at <= before,
            expire=lambda connection, before, limit, _: inbox_keys.expire(
                connection, now=before, limit=limit
            ),
        ),
        ExpirySweep(name="audit", table=_AUDIT, is_old=_old_audit, expire=_expire_audit),
    )
}
"""One sweep for each of `hookfast.retention.ages.SWEEPS`."""
