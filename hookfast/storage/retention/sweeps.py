"""What retention deletes, table by table, in batches small enough that nobody waits for them.

A table is one entry of `SWEEPS`: what goes, by which key it is walked, and what keeps a row that is
past its age. Every batch is a transaction of its own, which also moves the sweep's cursor and adds
to its counts (`retention_runs`): a crash between two batches neither loses nor doubles anything.
Nothing here says when to delete; cutoffs come with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import Prefix, first_id_at
from hookfast.owners.notice import NoticeStatus
from hookfast.storage.audit import audit_log
from hookfast.storage.inbox import inbox_keys
from hookfast.storage.retention import dead_letter_upkeep
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
_D = _DELIVERIES.c

Cutoffs = Mapping[str, datetime | None]
"""Since when each table's rows are kept; None: all of them are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one batch came to: rows that went (in a dry run: would), rows past their age that
    something keeps, and where the next one begins; `more` is whether there is one."""

    deleted: int
    kept: int
    cursor: str | None
    more: bool


_NOTHING: Final = Batch(deleted=0, kept=0, cursor=None, more=False)


class Sweep(Protocol):
    """How one table's old rows go."""

    @property
    def name(self) -> str:
        """One of `hookfast.retention.SWEEPS`."""

    async def batch(
        self,
        connection: AsyncConnection,
        cutoffs: Cutoffs,
        *,
        after: str | None,
        limit: int,
        dry_run: bool,
        now: datetime,
    ) -> Batch:
        """Look at the next rows past their age, at most `limit`, and delete those that may go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ById:
    """A table that is walked by an id, oldest first, each row once. `free` is what a row past its
    age must fulfil to go; `keepers` finds those of some rows that others keep. Both are asked with
    the rows locked, so that nobody is about to use them. `stays` is what the whole run leaves,
    where another sweep takes some: for dry runs."""

    name: str
    table: Table
    column: str
    prefix: Prefix
    free: Callable[[Cutoffs], ColumnElement[bool]] | None = None
    keepers: Callable[[Cutoffs, Sequence[str], bool], Select[str]] | None = None
    stays: Callable[[Cutoffs], ColumnElement[bool]] | None = None

    async def batch(
        self,
        connection: AsyncConnection,
        cutoffs: Cutoffs,
        *,
        after: str | None,
        limit: int,
        dry_run: bool,
        now: datetime,
    ) -> Batch:
        key, before = self.table.c[self.column], cutoffs[self.name]
        if before is None:
            return Batch(deleted=0, kept=0, cursor=after, more=False)
        page = select(key).where(key < first_id_at(self.prefix, before))
        if after is not None:
            page = page.where(key > after)
        ids = list((await connection.execute(page.order_by(key).limit(limit))).scalars())
        if not ids:
            return Batch(deleted=0, kept=0, cursor=after, more=False)
        if dry_run:
            deleted, kept = await self._would_go(connection, ids, cutoffs)
        else:
            deleted = await self._go(connection, ids, cutoffs)
            kept = len(ids) - deleted
        return Batch(deleted=deleted, kept=kept, cursor=ids[-1], more=len(ids) == limit)

    async def _would_go(
        self, connection: AsyncConnection, ids: list[str], cutoffs: Cutoffs
    ) -> tuple[int, int]:
        """How many of these rows a run would delete, and how many it would keep."""
        if self.keepers is not None:
            kept = await connection.execute(self.keepers(cutoffs, ids, True))
            staying = len(set(kept.scalars()))
            return len(ids) - staying, staying
        if self.free is None:
            return len(ids), 0
        count = select(func.count()).where(self.table.c[self.column].in_(ids))
        going = (await connection.execute(count.where(self.free(cutoffs)))).scalar_one()
        if self.stays is None:
            return going, len(ids) - going
        left = await connection.execute(count.where(self.stays(cutoffs)))
        return going, left.scalar_one()

    async def _go(self, connection: AsyncConnection, ids: list[str], cutoffs: Cutoffs) -> int:
        """Delete those of these rows that may go, and return how many."""
        key = self.table.c[self.column]
        if self.free is None and self.keepers is None:
            # nobody changes these rows: the range is all there is to say
            span = key.between(ids[0], ids[-1])
            return (await connection.execute(delete(self.table).where(span))).rowcount
        going = set(ids)
        if connection.dialect.name == "postgresql":  # SQLite has one writer, which this is
            # Rows that someone holds are passed by, until the next run. What keeps a row is asked
            # in a statement of its own: it sees what was committed up to the lock.
            locking = select(key).where(key.in_(ids)).with_for_update(skip_locked=True)
            going = set((await connection.execute(locking)).scalars())
        if self.keepers is not None:
            # not a NOT EXISTS in the DELETE: for that PostgreSQL may read all the other table
            kept = await connection.execute(self.keepers(cutoffs, sorted(going), False))
            going -= set(kept.scalars())
        deleting = delete(self.table).where(key.in_(sorted(going)))
        if self.free is not None:
            deleting = deleting.where(self.free(cutoffs))
        return (await connection.execute(deleting)).rowcount


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead letters, by when they ended, with their attempts."""

    name: str = "dead_letters"

    async def batch(
        self,
        connection: AsyncConnection,
        cutoffs: Cutoffs,
        *,
        after: str | None,
        limit: int,
        dry_run: bool,
        now: datetime,
    ) -> Batch:
        before = cutoffs[self.name]
        if before is None:
            return _NOTHING
        if dry_run:
            count = await connection.execute(
                select(func.count()).select_from(_DELIVERIES).where(_dead_before(before))
            )
            return Batch(deleted=count.scalar_one(), kept=0, cursor=None, more=False)
        gone = await dead_letter_upkeep.expire(connection, finished_before=before, limit=limit)
        return Batch(deleted=gone, kept=0, cursor=None, more=gone == limit)


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit log, through the one way that its triggers leave."""

    name: str = "audit"

    async def batch(
        self,
        connection: AsyncConnection,
        cutoffs: Cutoffs,
        *,
        after: str | None,
        limit: int,
        dry_run: bool,
        now: datetime,
    ) -> Batch:
        before = cutoffs[self.name]
        if before is None:
            return _NOTHING
        c = AuditEntry.__table__.c
        old = select(c.id).where(c.id < first_id_at("aud", before))
        if dry_run:
            count = await connection.execute(select(func.count()).select_from(old.subquery()))
            return Batch(deleted=count.scalar_one(), kept=0, cursor=None, more=False)
        if (await connection.execute(old.limit(1))).first() is None:
            # else the horizon would move, and log that it did, every night
            return _NOTHING
        gone = await audit_log.expire(connection, before=before, limit=limit, now=now)
        return Batch(deleted=gone, kept=0, cursor=None, more=gone == limit)


@dataclass(frozen=True, slots=True)
class InboxKeys:
    """Keys that make received requests the same: each says itself when it runs out."""

    name: str = "inbox_keys"

    async def batch(
        self,
        connection: AsyncConnection,
        cutoffs: Cutoffs,
        *,
        after: str | None,
        limit: int,
        dry_run: bool,
        now: datetime,
    ) -> Batch:
        before = cutoffs[self.name] or now
        if dry_run:
            c = InboxKey.__table__.c
            count = await connection.execute(
                select(func.count()).select_from(InboxKey.__table__).where(c.expires_at <= before)
            )
            return Batch(deleted=count.scalar_one(), kept=0, cursor=None, more=False)
        gone = await inbox_keys.expire(connection, now=before, limit=limit)
        return Batch(deleted=gone, kept=0, cursor=None, more=gone == limit)


def _dead_before(before: datetime) -> ColumnElement[bool]:
    # the predicate of the partial index, literally: no planner matches bound parameters with it
    dead = _D.status.in_([literal_column("'dead'"), literal_column("'gone'")])
    return and_(dead, _D.finished_at < before)


def _ended_before(before: datetime) -> ColumnElement[bool]:
    return and_(_D.status.in_(["delivered", "cancelled"]), _D.finished_at < before)


def _ended(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """A delivery goes once it ended that long ago; dead letters have their own age."""
    before = cutoffs["deliveries"]
    assert before is not None  # noqa: S101 - without one there is no batch
    return _ended_before(before)


def kept_deliveries(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """The deliveries that a run with these cutoffs leaves: what a dry run counts by."""
    going: list[ColumnElement[bool]] = []
    if (ended := cutoffs["deliveries"]) is not None:
        going.append(and_(_ended_before(ended), _D.id < first_id_at("dlv", ended)))
    if (dead := cutoffs["dead_letters"]) is not None:
        going.append(_dead_before(dead))
    # one that has not ended has no `finished_at`: the comparison is unknown, and NOT leaves it so
    return or_(_D.finished_at.is_(None), ~or_(*going)) if going else true()


def _with_deliveries(cutoffs: Cutoffs, ids: Sequence[str], dry_run: bool) -> Select[str]:
    """An event goes after its last delivery: one that is under way or a dead letter needs the body,
    and so does a delivered one to be sent again. A dry run leaves out those that would be gone."""
    keepers = select(_D.event_id).where(_D.event_id.in_(ids)).distinct()
    return keepers.where(kept_deliveries(cutoffs)) if dry_run else keepers


def _told(_: Cutoffs) -> ColumnElement[bool]:
    return Notice.__table__.c.status != NoticeStatus.PENDING.value


def _carried_out(cutoffs: Cutoffs) -> ColumnElement[bool]:
    return Job.__table__.c.finished_at < cutoffs["jobs"]


def kept_events(cutoffs: Cutoffs) -> ColumnElement[bool]:
    """The events that a run with these cutoffs leaves: what a dry run counts by."""
    before, c = cutoffs["events"], Event.__table__.c
    if before is None:
        return true()
    keeping = select(_D.id).where(_D.event_id == c.id, kept_deliveries(cutoffs))
    return or_(c.id >= first_id_at("evt", before), keeping.correlate(Event.__table__).exists())


def _with_event(cutoffs: Cutoffs, ids: Sequence[str], dry_run: bool) -> Select[str]:
    """A received request goes after its event, which may be sent as it came in."""
    i, e = InboxEntry.__table__.c, Event.__table__.c
    keepers = select(i.id).where(i.id.in_(ids), e.id == i.event_id)
    return keepers.where(kept_events(cutoffs)) if dry_run else keepers


SWEEPS: Final[Mapping[str, Sweep]] = {
    sweep.name: sweep
    for sweep in (
        ById(name="attempts", table=Attempt.__table__, column="id", prefix="att"),
        DeadLetters(),
        ById(
            name="deliveries",
            table=_DELIVERIES,
            column="id",
            prefix="dlv",
            free=_ended,
            stays=kept_deliveries,
        ),
        ById(
            name="idempotency_keys",
            table=IdempotencyKey.__table__,
            column="event_id",
            prefix="evt",
        ),
        ById(
            name="events",
            table=Event.__table__,
            column="id",
            prefix="evt",
            keepers=_with_deliveries,
        ),
        ById(name="notices", table=Notice.__table__, column="id", prefix="ntc", free=_told),
        ById(name="jobs", table=Job.__table__, column="id", prefix="job", free=_carried_out),
        ById(
            name="inbox", table=InboxEntry.__table__, column="id", prefix="inb", keepers=_with_event
        ),
        InboxKeys(),
        Audit(),
    )
}
