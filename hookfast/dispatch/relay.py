"""The outbox relay: starts new deliveries, each in its own workflow or many in a batch, and wakes
the workflows of deliveries whose row was changed from outside.

Any number of relays may run; leases keep them apart. The steps of a round, and what a crash after
each leaves behind:

1. Claim (`hookfast.dispatch.claim`): one transaction marks the rows that were started, and leases
   the next ones. Crash: the leases end and another relay takes the rows.
2. Start (`hookfast.dispatch.starts`) each workflow, under an id made from the delivery's, while the
   next round may begin; give the others to a batch (`hookfast.dispatch.batches`). Crash: the
   started ones run; their rows are leased again later, and Temporal answers the second start of the
   same id with "exists".
3. Remember them for step 1 of a later round. Crash: as above. Recording a first attempt marks its
   row too, so new rows are left to that for seconds, and usually nothing is left to do. A row that
   was changed again since it was leased is not marked: its workflow is woken again. A row whose
   lease has ended meanwhile is marked.

A batch's rows belong to it until the time in them (`batch_until`). The record of each attempt marks
its row. After a crash before the batch is started, or before rows reach it, or if it is lost, that
time ends and another relay takes the rows.

Order of service: requests by a person, then retries, probes and released deliveries, then new
deliveries, then jobs; within each, tenants and their endpoints in turns. `hookfast.dispatch.pace`
says how much of it is in hand: no more is leased than can start soon, so that requests by a person
need not wait.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta

import structlog
from temporalio.client import Client
from temporalio.service import RPCError

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.dispatch.batches import Batch, Batches
from hookfast.dispatch.claim import Claim, Claimed
from hookfast.dispatch.pace import BATCHES, InHand, Pace
from hookfast.dispatch.starts import Starts
from hookfast.ids import new_id
from hookfast.outage_log import DATABASE, TEMPORAL
from hookfast.storage.database.availability import is_transient
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.telemetry import instruments

_IDLE_SECONDS = 1.0  # reads the outbox this often, in case the doorbell fails
_MARK_SECONDS = 0.2  # marks woken rows this long after the last round, when nothing follows
_BACKOFF_FIRST, _BACKOFF_LONGEST = 0.25, 15.0
_LEAVE_SECONDS = 5.0  # waits this long for an unresponsive database at shutdown
_PERSON_SECONDS = 0.2  # looks this often for requests by a person while there is no room for others
_OPENS_SECONDS = 0.05  # waits this long for a batch that is being started and can take more then

log = structlog.get_logger()


class Relay:
    """Starts what is in the outbox. One per worker process; `run` until cancelled."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        doorbell: Doorbell,
        lease: timedelta,
        fast_lane_timeout: timedelta,
        pace: Pace,
        clock: Clock = utc_now,
    ) -> None:
        self._doorbell = doorbell
        self._pace = pace
        self._clock = clock
        self._moved = asyncio.Event()  # a start has ended, or a batch has changed
        self.batches = Batches(
            client, pace=pace, on_change=self._moved.set, on_end=self._on_batch_end, clock=clock
        )
        self._claim = Claim(
            database,
            loader=loader,
            pace=pace,
            in_progress=self._in_progress,
            lease=lease,
            fast_lane_timeout=fast_lane_timeout,
            clock=clock,
        )
        self._starts = Starts(
            client,
            loader=loader,
            pace=pace,
            lease=lease,
            fast_lane_timeout=fast_lane_timeout,
            on_started=self._on_started,
            on_failed=self._on_failed,
            clock=clock,
        )
        self._failure: Exception | None = None
        self._backoff = 0.0

    async def run(self) -> None:
        """Relay until cancelled, and wait while the database or Temporal is away. Starts in
        progress at cancellation are completed, if Temporal answers soon."""
        await self._doorbell.listen()
        task: asyncio.Task[Claimed | None] | None = None
        try:
            while True:
                await self._until_there_is_room()
                task = asyncio.create_task(self._claim_and_start())
                claimed = await asyncio.shield(task)
                if self._failure is not None:
                    await self._back_off()
                elif claimed is None or not claimed.more:
                    woken = self._claim.has_woken
                    await self._doorbell.wait(_MARK_SECONDS if woken else _IDLE_SECONDS)
                if claimed is not None and claimed.count and self._pace.batched:
                    await asyncio.sleep(self._pace.gather_seconds)
        finally:
            self.batches.close()
            self._starts.close()
            if task is not None:
                await asyncio.wait([task], timeout=_LEAVE_SECONDS)
                task.cancel()  # another relay takes its rows when their leases end
            for batch in self.batches.running:
                batch.cancel()  # a batch that was started continues
            await self._wait_for_starts(_LEAVE_SECONDS)

    async def relay_once(self) -> int:
        """Run one round: claim, start, and wait for the starts. Return how many rows were
        claimed."""
        claimed = await self._claim_and_start()
        await self._wait_for_starts()
        return 0 if claimed is None else claimed.count

    async def finish(self) -> None:
        """Mark the started rows without claiming more: the last step of a clean shutdown."""
        await self._claim.mark()

    # -- a round -----------------------------------------------------------------------------------

    async def _claim_and_start(self) -> Claimed | None:
        """Claim rows and begin to start them. None if that failed: the relay survives every error,
        the database's and our own."""
        batch = self.batches.open
        try:
            with batch.leasing() if batch else nullcontext():
                new_batch = new_id("btc", self._clock())
                batch_id = new_batch if batch is None else batch.id
                claimed = await self._claim.claim(self._pace.allowance(self._in_hand()), batch_id)
                self._start(claimed, batch, new_batch)
        except Exception as error:
            self._failure = error
            return None
        return claimed

    def _start(self, claimed: Claimed, batch: Batch | None, new_batch: str) -> None:
        """Start the workflows of the claimed deliveries, and give the others to the batch, or to a
        new one."""
        if not claimed.count:
            self._starts.admit()
            return
        instruments.RELAY_BATCH.record(claimed.count)
        self._starts.add(claimed.alone, lease=claimed.leased_until)
        if not claimed.batched:
            return
        if batch is None:
            self._begin_batch(new_batch, claimed)
            return
        now = asyncio.get_running_loop().time()
        lasts = (claimed.batch_until - self._clock()).total_seconds()
        if batch.add(claimed.batched, leased_until=now + lasts):
            count = len(claimed.batched)
            instruments.RELAY_STARTS.add(count, carrier="batch", result="started")
        else:  # the database took seconds; another relay takes them when their lease ends
            log.warning("A batch ended while deliveries were added to it.", batch_id=batch.id)
        if self.batches.next_is_due and self.batches.busy < BATCHES:
            self._begin_batch(new_batch, Claimed(claimed.leased_until, claimed.batch_until))

    def _begin_batch(self, batch_id: str, claimed: Claimed) -> None:
        self.batches.begin(
            batch_id,
            claimed.batched,
            leased_until=claimed.batch_until,
            on_start=self._on_batch_start,
        )

    # -- what is in hand ---------------------------------------------------------------------------

    def _in_hand(self) -> InHand:
        batch = self.batches.open
        free = self._pace.batch_size if self.batches.busy < BATCHES else 0
        return InHand(
            starting=len(self._starts),
            persons=self._starts.count(Urgency.PERSON),
            new=self._starts.count(Urgency.FIRST, Urgency.JOB),
            batch_room=free if batch is None else batch.life.room,
        )

    def _in_progress(self, endpoint_id: str) -> int:
        """How many new deliveries of this endpoint are being started, or are in batches."""
        starting = sum(row.endpoint_id == endpoint_id for row in self._starts.rows)
        return starting + self.batches.in_progress(endpoint_id)

    async def _until_there_is_room(self) -> None:
        """Wait for room for new deliveries, for 0.2 s at the longest."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PERSON_SECONDS
        if self.batches.open is None and self.batches.is_starting:
            await self._until(loop.time() + _OPENS_SECONDS, lambda: self.batches.open is not None)
        await self._until(deadline, lambda: self._pace.wants_more(self._in_hand()))

    async def _until(self, deadline: float, is_so: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not is_so():
                    self._moved.clear()
                    await self._moved.wait()

    async def _wait_for_starts(self, timeout: float | None = None) -> None:
        while under_way := [*self._starts.tasks, *self.batches.running]:
            _, pending = await asyncio.wait(under_way, timeout=timeout)
            if pending:
                return
            await asyncio.sleep(0)  # lets those begin that waited for them

    # -- what happens meanwhile --------------------------------------------------------------------

    def _on_batch_end(self) -> None:
        if self._claim.was_limited:  # its endpoints have deliveries that waited for this
            self._doorbell.wake()

    def _on_batch_start(self, error: Exception | None) -> None:
        """Note whether Temporal accepted the start of a batch."""
        if error is None:
            self._backoff = 0.0
        else:
            self._failure = error

    def _on_started(self, row: PendingDelivery) -> None:
        self._claim.started(row)
        self._backoff = 0.0
        self._moved.set()

    def _on_failed(self, row: PendingDelivery, lease: datetime, error: RPCError | None) -> None:
        self._claim.failed(row, lease)
        if error is not None:
            self._failure = error
        self._moved.set()

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
