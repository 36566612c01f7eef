"""The outbox relay: starts new deliveries, each in its own workflow or many in a batch, and wakes
the workflows of deliveries whose row was changed from outside.

Any number of relays may run; leases keep them apart. The steps of a round, and what a crash after
each leaves behind:

1. One transaction marks the rows started since the last round, and leases the next ones. Crash: the
   leases end and another relay takes the rows.
2. Start each workflow, under an id made from the delivery's, while the next round may begin. Crash:
   the started ones run; their rows are leased again later, and Temporal answers the second start of
   the same id with "exists".
3. Remember them for step 1 of a later round. Crash: as above. Recording an attempt marks its row
   too, so usually nothing is left to do. A row that was changed again since it was leased is not
   marked: its workflow is woken again. A row whose lease has ended meanwhile is marked.

A batch's rows belong to it until the time in them (`batch_until`). The record of each attempt marks
its row. After a crash before the batch is started, or before rows reach it, or if it is lost, that
time ends and another relay takes the rows.

Order of service: requests by a person, then retries, probes and released deliveries, then new
deliveries, then jobs; within each, tenants and their endpoints in turns. While retries run late,
few new deliveries are in progress. No more is leased than can start soon, so that requests by a
person need not wait.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock, utc_now
from hookfast.deliveries import batch_messages
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.time_budget import BATCH_LEASE
from hookfast.dispatch.batches import Batch, Batches
from hookfast.dispatch.first_attempts import FirstAttempts
from hookfast.dispatch.retry_lag import RetryLag
from hookfast.dispatch.start import start_or_wake
from hookfast.dispatch.start_window import StartWindow, WindowClosed
from hookfast.dispatch.unhealthy_endpoints import UnhealthyEndpoints
from hookfast.ids import new_id
from hookfast.outage_log import DATABASE, TEMPORAL
from hookfast.storage.database.availability import is_transient
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.fair_claim import FairClaim, FreeRows
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.deliveries.outgoing import DeliveryWithEndpoint, OutgoingLoader
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint
from hookfast.telemetry import instruments, spans

_IDLE_SECONDS = 1.0  # reads the outbox this often, in case the doorbell fails
_MARK_SECONDS = 0.2  # marks started rows this long after the last round, when nothing follows
_BACKOFF_FIRST, _BACKOFF_LONGEST = 0.25, 15.0
_LEAVE_SECONDS = 5.0  # waits this long for an unresponsive database at shutdown
_NEW_WHILE_LATE = 4  # new deliveries in progress while retries run late
_PERSON_SECONDS = 0.2  # looks this often for requests by a person while there is no room for others
_BATCHES = 2  # at once: one is loaded while the requests of the other are made
_GATHER_SECONDS = 0.003
"""New deliveries gather for this long before they are added to a batch, so that they share its
cost. With 30 ms, every delivery waited for it; at 350 a second it halved a worker's CPU, which is
not short then, and the highest rate stayed the same, because deliveries gather then anyway."""
_OPENS_SECONDS = 0.05  # waits this long for a batch that is being started and can take more then
_PER_ENDPOINT = 2 * batch_messages.MOST
"""New deliveries of one endpoint in progress at once."""
_PER_UNHEALTHY_ENDPOINT = 16
"""The same for an endpoint that was slow or failing lately."""
_LEASE_LEFT = 0.25
"""A start is made while this part of its lease is left, so that the row is marked before another
relay may take it. That one might make the first attempt at the same moment, in a batch."""
_BURST = 16  # this many new deliveries at once, with more behind them, are a burst

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Leased:
    count: int
    more: bool


class _TooLate(Exception):
    """A start waited for its turn until its row may soon be leased again. It is not made, and the
    window learns nothing from it."""


class Relay:
    """Starts what is in the outbox. One per worker process; `run` until cancelled."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        doorbell: Doorbell,
        batch: int,
        lease: timedelta,
        fast_lane_timeout: timedelta,
        retry_lag: RetryLag,
        first_attempts: FirstAttempts,
        batches: Batches,
        window: StartWindow,
        unhealthy: UnhealthyEndpoints,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._doorbell = doorbell
        self._batch = batch
        self._lease = lease
        self._fast_lane_timeout = fast_lane_timeout
        self._retry_lag = retry_lag
        self._clock = clock
        self._first_attempts = first_attempts
        self._unhealthy = unhealthy
        self._fair = FairClaim()
        self._window = window
        self._starting: dict[asyncio.Task[None], PendingDelivery] = {}
        self._batches = batches
        # by the wake counts of their rows: those that were put back meanwhile are not marked
        self._started: defaultdict[int, list[str]] = defaultdict(list)
        # by lease: another relay may have leased them meanwhile
        self._failed: defaultdict[datetime, list[str]] = defaultdict(list)
        self._failure: Exception | None = None
        self._backoff = 0.0
        self._behind = True  # more rows may wait than one quick transaction finds

    async def run(self) -> None:
        """Relay until cancelled, and wait while the database or Temporal is away. Starts in
        progress at cancellation are completed, if Temporal answers soon."""
        await self._doorbell.listen()
        leasing: asyncio.Task[_Leased] | None = None
        try:
            while True:
                room = await self._room()
                leasing = asyncio.create_task(self._lease_and_start(room))
                leased = await asyncio.shield(leasing)
                if self._failure is not None:
                    await self._back_off()
                elif not leased.more:
                    await self._doorbell.wait(_MARK_SECONDS if self._started else _IDLE_SECONDS)
                if leased.count and self._first_attempts.batched:
                    await asyncio.sleep(_GATHER_SECONDS)
        finally:
            self._batches.close()
            self._window.close()
            if leasing is not None:
                await asyncio.wait([leasing], timeout=_LEAVE_SECONDS)
                leasing.cancel()  # another relay takes its rows when their leases end
            for task in self._batches.running:
                task.cancel()  # a batch that was started continues
            await self._wait_for_starts(_LEAVE_SECONDS)

    async def relay_once(self) -> int:
        """Run one round: lease, start, and wait for the starts. Return how many rows were
        leased."""
        leased = await self._lease_and_start(self._batch)
        await self._wait_for_starts()
        return leased.count

    async def finish(self) -> None:
        """Mark the started rows without leasing more: the last step of a clean shutdown."""
        async with self._database.write() as connection:
            await self._mark_started(connection)

    async def _lease_and_start(self, room: int) -> _Leased:
        """Lease rows, at most `room` of them with a workflow of their own, and begin to start or
        wake their workflows."""
        batching = self._first_attempts.batched and not self._retry_lag.is_late
        into = self._batches.open if batching else None
        with into.adding() if into else nullcontext():
            return await self._lease_for(into, room)

    async def _lease_for(self, into: Batch | None, room: int) -> _Leased:
        """Lease and start. First attempts go into this batch, or into a new one."""
        try:
            read_at = asyncio.get_running_loop().time()
            now = self._clock()
            async with self._database.write(quick=not self._behind) as connection:
                await self._mark_started(connection)
                claimed = await self._claim(connection, room, self._room_in(into), now)
                chosen = await self._loader.with_endpoints(connection, claimed.rows)
                batched = self._batched(chosen)
                until, held = now + self._lease, now + BATCH_LEASE
                batch_id = new_id("btc", now) if into is None else into.id
                ids = [one.row.delivery_id for one in batched]
                own = [row.delivery_id for row in claimed.rows if row.delivery_id not in set(ids)]
                await outbox.lease(connection, own, until=until)
                await outbox.lease(connection, ids, until=held, batch_id=batch_id)
            self._behind = claimed.more
            if not claimed.rows:
                return _Leased(0, more=claimed.more)
            instruments.RELAY_BATCH.record(len(claimed.rows))
            batched = [one.in_batch(batch_id, held) for one in batched]
            alone = [one for one in chosen if one.row.delivery_id not in set(ids)]
            async with self._database.read(quick=True) as connection:
                await self._loader.prime(connection, [*batched, *alone], read_at=read_at)
        except Exception as error:  # the relay survives every error, the database's and our own
            self._failure = error
            return _Leased(0, more=False)
        for one in alone:
            task = asyncio.create_task(
                self._start(one.row, one.endpoint, until), name=f"start-{one.row.delivery_id}"
            )
            self._starting[task] = one.row
            task.add_done_callback(self._starting.pop)
        rows = [one.row for one in batched]
        if rows and into is None:
            self._batches.begin(batch_id, rows, leased_until=held, on_start=self._on_batch_start)
        elif rows and into is not None:
            if into.add(rows):
                instruments.RELAY_STARTS.add(len(rows), carrier="batch", result="started")
            else:  # the database took seconds; another relay takes them when their lease ends
                log.warning("A batch ended while deliveries were added to it.", batch_id=batch_id)
            if self._batches.next_is_due and len(self._batches.at_work) < _BATCHES:
                self._batches.begin(
                    new_id("btc", now), (), leased_until=held, on_start=self._on_batch_start
                )
        return _Leased(len(claimed.rows), more=claimed.more)

    async def _claim(
        self, connection: AsyncConnection, own: int, batched: int, now: datetime
    ) -> FreeRows:
        find = partial(self._fair.find, connection, now=now)
        late, batching = self._retry_lag.is_late, self._first_attempts.batched
        if not own:
            waiting = sum(row.urgency <= Urgency.PERSON for row in self._starting.values())
            urgent = FreeRows([], more=False)
            if waiting < self._batch:  # more would wait until their leases end
                urgent = await find(limit=self._batch - waiting, least_urgent=Urgency.PERSON)
        elif late or batching:
            urgent = await find(limit=own, least_urgent=Urgency.RETRY)
        else:
            found = await find(limit=own, room=self._room_of)
            self._note_new(found, now)
            return found
        few = batched if batching else 0
        if late:
            few = min(own - len(urgent.rows), _NEW_WHILE_LATE - self._new_in_progress())
        if few <= 0:
            return FreeRows(
                urgent.rows, more=not late
            )  # there was no room for others, so they were not looked for
        new = await find(limit=few, most_urgent=Urgency.FIRST, room=self._room_of)
        if not late:
            self._note_new(new, now)
        return FreeRows(urgent.rows + new.rows, urgent.more or new.more)

    def _note_new(self, found: FreeRows, now: datetime) -> None:
        new = [row.due_from for row in found.rows if row.new and row.deliver_at is None]
        if new:
            full = found.more and len(new) >= _BURST
            self._first_attempts.note_leased(len(new), oldest=now - min(new), full=full)

    def _batched(self, chosen: Sequence[DeliveryWithEndpoint]) -> list[DeliveryWithEndpoint]:
        """The deliveries whose first attempts are batched."""
        if not self._first_attempts.batched or self._retry_lag.is_late:
            return []
        return [
            one
            for one in chosen
            if one.row.new
            and one.row.deliver_at is None
            and one.row.urgency == Urgency.FIRST
            and one.gate.admits_all
            and one.endpoint.limits is None
            and one.endpoint.timeout_seconds <= self._fast_lane_timeout.total_seconds()
            and one.row.endpoint_id not in self._unhealthy
        ]

    def _new_in_progress(self) -> int:
        return sum(row.urgency >= Urgency.FIRST for row in self._starting.values())

    def _room_of(self, endpoint_id: str) -> int:
        """How many more new deliveries of this endpoint may be in progress."""
        in_progress = sum(row.endpoint_id == endpoint_id for row in self._starting.values())
        in_progress += self._batches.in_progress(endpoint_id)
        most = _PER_UNHEALTHY_ENDPOINT if endpoint_id in self._unhealthy else _PER_ENDPOINT
        return max(0, most - in_progress)

    async def _mark_started(self, connection: AsyncConnection) -> None:
        """Mark the rows started since the last time, and release those that could not be
        started."""
        # If the commit fails after this, the leases end and nothing is lost.
        while self._started:
            wake_count, ids = self._started.popitem()
            await outbox.mark_started(connection, ids, wake_count=wake_count, now=self._clock())
        while self._failed:
            lease, ids = self._failed.popitem()
            await outbox.release(connection, ids, leased_until=lease)

    def _room_in(self, into: Batch | None) -> int:
        """How many new deliveries fit into this batch, or into a new one."""
        if into is not None:
            return into.room
        return self._batches.most if len(self._batches.at_work) < _BATCHES else 0

    async def _room(self) -> int:
        """Wait for room, and return how many rows may be leased to start with a workflow of their
        own. As many as are starting may wait for their turn; half of them start before more are
        leased, because each lease costs a transaction. Returns after 0.2 s at the latest."""
        most = min(self._batch, 2 * self._window.size)
        deadline = asyncio.get_running_loop().time() + _PERSON_SECONDS
        opening = [one.opens for one in self._batches.at_work if one.is_opening]
        if opening and self._batches.open is None:
            await asyncio.wait(opening, timeout=_OPENS_SECONDS)
        while True:
            batching = self._first_attempts.batched
            if batching and self._room_in(self._batches.open):
                break
            if not batching and len(self._starting) <= most // 2:
                break
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            under_way = [*self._starting, *(one.rests for one in self._batches.at_work)]
            await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return max(0, most - len(self._starting))

    async def _wait_for_starts(self, timeout: float | None = None) -> None:
        if under_way := [*self._starting, *self._batches.running]:
            await asyncio.wait(under_way, timeout=timeout)

    async def _start(self, row: PendingDelivery, endpoint: CachedEndpoint, lease: datetime) -> None:
        """Start or wake one delivery's workflow, and count the result."""
        with spans.start_of_delivery(
            self._loader.traceparent_of(row.event_id),
            event_type=row.event_type,
            # a row that was put back has waited only since then
            since=row.due_from if row.new else self._clock(),
            ids={"delivery": row.delivery_id, "endpoint": row.endpoint_id},
        ):
            result = await self._start_workflow(row, endpoint, lease)
        instruments.RELAY_STARTS.add(carrier="workflow", result=result)

    async def _start_workflow(
        self, row: PendingDelivery, endpoint: CachedEndpoint, lease: datetime
    ) -> str:
        """Return the result: `started`, `exists`, `failed` or `refused`."""
        result = "started"
        try:
            async with self._window.turn(row.urgency, row.delivery_id):
                if self._clock() > lease - _LEASE_LEFT * self._lease:
                    raise _TooLate
                if await start_or_wake(
                    self._client, row, endpoint, fast_lane_timeout=self._fast_lane_timeout
                ):
                    self._window.expect_step(row.delivery_id)
        except WorkflowAlreadyStartedError:
            result = "exists"  # it has run already, which counts as started
        except (_TooLate, WindowClosed):
            self._failed[lease].append(row.delivery_id)  # it is released for another relay
            return "failed"
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                self._failed[lease].append(row.delivery_id)
                self._failure = error
                return "failed"
            self._log_rejected(row, error)
            return "refused"
        except Exception as error:  # our own error: one row must not delay the others
            self._log_rejected(row, error)
            return "refused"
        self._started[row.wake_count].append(row.delivery_id)
        self._backoff = 0.0
        return result

    def _log_rejected(self, row: PendingDelivery, error: Exception) -> None:
        """Log a row that cannot be started. It is tried again when its lease ends."""
        log.error("A delivery cannot be started.", delivery_id=row.delivery_id, exc_info=error)

    def _on_batch_start(self, error: Exception | None) -> None:
        """Note whether Temporal accepted the start of a batch."""
        if error is None:
            self._backoff = 0.0
        else:
            self._failure = error

    async def _back_off(self) -> None:
        error, self._failure = self._failure, None
        await self._wait_for_starts()
        self._backoff = min(max(self._backoff * 2, _BACKOFF_FIRST), _BACKOFF_LONGEST)
        pause = self._backoff * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        if error is not None and (isinstance(error, RPCError) or is_transient(error)):
            away = TEMPORAL if isinstance(error, RPCError) else DATABASE
            away.failed(
                "The relay waits for the database or Temporal.",
                error=f"{type(error).__name__}: {str(error)[:200]}",
                retry_in_seconds=round(pause, 2),
            )
        else:
            log.error("The relay failed, and continues.", exc_info=error)
        await asyncio.sleep(pause)
