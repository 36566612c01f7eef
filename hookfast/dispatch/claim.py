"""Claims rows of the outbox for this worker: one transaction that marks what was started, finds the
next rows, leases them, and reads what their first attempts need.

If its commit fails, the leases end and nothing is lost. A crash right after it leaves rows that
nobody starts or attempts: their leases end, and another relay takes them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.batch_messages import MOST
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.time_budget import BATCH_LEASE
from hookfast.dispatch.pace import Allowance, Pace
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.fair_claim import FairClaim, FreeRows
from hookfast.storage.deliveries.outbox import BatchLease, PendingDelivery
from hookfast.storage.deliveries.outgoing import DeliveryWithEndpoint, Outgoing, OutgoingLoader

_MARK_NEW = 1 / 6
"""New deliveries are marked when this part of the oldest's lease has passed (5 s), all at once. The
records of their first attempts have marked most of them by then: with each claim, that took a
statement for each delivery at 5 a second, and often another write of its row."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The rows of a claim. `alone` are leased for a workflow each, until `leased_until`; `batched`
    belong to their batch until `batch_until`. `more`: others may be free."""

    leased_until: datetime
    batch_until: datetime
    alone: Sequence[DeliveryWithEndpoint] = ()
    batched: Sequence[Outgoing] = ()
    more: bool = False

    @property
    def count(self) -> int:
        return len(self.alone) + len(self.batched)


class Claim:
    """Claims rows, fairly between tenants and endpoints. One per relay."""

    def __init__(
        self,
        database: Database,
        *,
        loader: OutgoingLoader,
        pace: Pace,
        in_progress: Callable[[str], int],
        lease: timedelta,
        fast_lane_timeout: timedelta,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._loader = loader
        self._pace = pace
        self._in_progress = in_progress
        self._lease = lease
        self._fast_lane_timeout = fast_lane_timeout
        self._clock = clock
        self._fair = FairClaim()
        self._new: list[str] = []  # started for the first time
        self._new_since = 0.0
        # by the wake counts of their rows: those that were put back meanwhile are not marked
        self._woken: defaultdict[int, list[str]] = defaultdict(list)
        # by lease: another relay may have leased them meanwhile
        self._failed: defaultdict[datetime, list[str]] = defaultdict(list)
        self._behind = True  # more rows may wait than one quick transaction finds
        self._found = 0  # by the last claim
        self.was_limited = False
        """Whether the last claim may have left rows because their endpoint has many in progress."""

    @property
    def has_woken(self) -> bool:
        """Whether rows wait to be marked that no first attempt marks soon: of woken workflows, and
        of deliveries that are scheduled for later."""
        return bool(self._woken)

    def started(self, row: PendingDelivery) -> None:
        """Mark this row with a later claim: Temporal has its workflow."""
        if row.new and row.deliver_at is None:
            if not self._new:
                self._new_since = asyncio.get_running_loop().time()
            self._new.append(row.delivery_id)
        else:
            self._woken[row.wake_count].append(row.delivery_id)

    def failed(self, row: PendingDelivery, lease: datetime) -> None:
        """Release this row with the next claim: it could not be started."""
        self._failed[lease].append(row.delivery_id)

    async def claim(self, allowed: Allowance, batch_id: str) -> Claimed:
        """Claim rows. New ones that may be batched are leased for this batch. Raises SQLAlchemy's
        errors."""
        read_at, now = asyncio.get_running_loop().time(), self._clock()
        until, batch_until = now + self._lease, now + BATCH_LEASE
        async with self._database.write(quick=not self._behind) as connection:
            waited = read_at - self._new_since
            await self._mark(connection, new=waited > _MARK_NEW * self._lease.total_seconds())
            free = await self._find(connection, allowed, now)
            self._behind, self._found = free.more, len(free.rows)
            if not free.rows:
                return Claimed(until, batch_until, more=free.more)
            found = await self._loader.with_endpoints(connection, free.rows)
            await self._loader.read_events(connection, [row for row in free.rows if row.new])
            batched = await self._loader.of_rows(
                connection,
                [one for one in found if allowed.batched and self._may_be_batched(one)],
                read_at=read_at,
                batch=BatchLease(batch_id, batch_until),
            )
            ids = {one.delivery_id for one in batched}
            alone = [one for one in found if one.row.delivery_id not in ids]
            names = [one.row.delivery_id for one in alone]
            await outbox.lease(connection, names, until=until)
            await outbox.lease(connection, list(ids), until=batch_until, batch_id=batch_id)
        took = asyncio.get_running_loop().time() - read_at
        self._pace.claim_took(took, found=len(free.rows))
        return Claimed(until, batch_until, alone, batched, more=free.more)

    async def mark(self) -> None:
        """Mark and release rows without claiming more. Raises SQLAlchemy's errors."""
        async with self._database.write() as connection:
            await self._mark(connection, new=True)

    async def _find(
        self, connection: AsyncConnection, allowed: Allowance, now: datetime
    ) -> FreeRows:
        find = partial(self._fair.find, connection, now=now, room=self._room)
        self.was_limited = False
        few = allowed.own if allowed.least_urgent == Urgency.JOB else 0
        if allowed.least_urgent == Urgency.RETRY and allowed.batched:
            few = min(allowed.own, allowed.new)
        if not self._behind and self._found < few // 2:
            # Few rows wait, most likely: one statement finds them all, in place of two for each
            # urgency.
            all_free = await self._fair.find_few(connection, limit=few, now=now, room=self._room)
            if all_free is not None:
                self._note_new(all_free, now)
                return all_free
        found = await find(limit=allowed.own, least_urgent=allowed.least_urgent)
        if allowed.least_urgent == Urgency.JOB:
            self._note_new(found, now)
            return found
        new = allowed.new if allowed.batched else min(allowed.new, allowed.own - len(found.rows))
        if new <= 0:  # there was no room for others, so they were not looked for
            return FreeRows(found.rows, more=not self._pace.retries_are_late)
        others = await find(limit=new, most_urgent=Urgency.FIRST)
        self._note_new(others, now)
        return FreeRows(found.rows + others.rows, found.more or others.more)

    def _note_new(self, found: FreeRows, now: datetime) -> None:
        """Tell the pace how many new deliveries came."""
        new = [row.due_from for row in found.rows if row.new and row.deliver_at is None]
        if new and not self._pace.retries_are_late:
            self._pace.claimed(len(new), oldest=now - min(new))

    def _may_be_batched(self, one: DeliveryWithEndpoint) -> bool:
        """Whether the delivery's first attempt may be made in a batch: nothing lets it wait."""
        row, endpoint = one.row, one.endpoint
        return (
            row.new
            and row.deliver_at is None
            and row.urgency == Urgency.FIRST
            and one.gate.admits_all
            and endpoint.limits is None
            and endpoint.timeout_seconds <= self._fast_lane_timeout.total_seconds()
            and not self._pace.slow_requests.share_is_used(row.endpoint_id)
        )

    def _room(self, endpoint_id: str) -> int:
        room = self._pace.endpoint_room(endpoint_id, self._in_progress(endpoint_id))
        self.was_limited = self.was_limited or room < MOST
        return room

    async def _mark(self, connection: AsyncConnection, *, new: bool) -> None:
        if new and self._new:
            self._woken[0] += self._new  # where those that are scheduled for later are already
            self._new = []
        while self._woken:
            wake_count, ids = self._woken.popitem()
            await outbox.mark_started(connection, ids, wake_count=wake_count, now=self._clock())
        while self._failed:
            lease, ids = self._failed.popitem()
            await outbox.release(connection, ids, leased_until=lease)
