"""The outbox relay: starts the workflow of every delivery that was committed and not yet started,
and wakes those whose row was changed by somebody else.

Any number of relays may run; leases keep them apart. The order of a round, and what each step's
crash leaves behind:

1. One transaction marks what was started since the last round and leases the next rows.
   Crash after: the leases run out and another relay takes the rows.
2. Start each workflow, under an id made of the delivery's, while the next round may begin.
   Crash after some: those run; their rows are leased again later, and Temporal answers the second
   start of the same id with "exists".
3. Remember them for a later round's step 1. Crash before: as above. An attempt's record marks its
   row too, so usually nothing is left to do. A row that was changed again since it was leased is
   not marked: its workflow is woken once more.

Order of service: what a person asked for, then retries, probes and what circuits let go, then new
deliveries, then jobs. While retries run late, few new deliveries are in hand. No more is leased
than starts soon, and what a person asks for is looked for meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock, utc_now
from hookfast.delivery import Urgency
from hookfast.delivery_start import start_or_wake
from hookfast.lateness import Lateness
from hookfast.start_window import StartWindow
from hookfast.storage import outbox
from hookfast.storage.doorbell import Doorbell
from hookfast.storage.engine import Database
from hookfast.storage.outbox import PendingDelivery
from hookfast.storage.outgoing import OutgoingLoader
from hookfast.storage.targets import Target
from hookfast.telemetry import instruments, spans

_IDLE_SECONDS = 1.0  # looks by itself this often, should the doorbell fail
_MARK_SECONDS = 0.2  # marks what it started this long after the last round, when nothing follows
_BACKOFF_FIRST, _BACKOFF_LONGEST = 0.25, 15.0
_LEAVE_SECONDS = 5.0  # waits so long for a database that does not answer, when told to end
_NEW_WHILE_LATE = 4  # new deliveries in hand while retries run late
_WISH_SECONDS = 0.2  # looks this often for wishes while there is no room for anything else

log = structlog.get_logger()


class Relay:
    """One per worker process; `run` until cancelled."""

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
        lateness: Lateness,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._doorbell = doorbell
        self._batch = batch
        self._lease = lease
        self._fast_lane_timeout = fast_lane_timeout
        self._lateness = lateness
        self._clock = clock
        self._window = StartWindow()
        self._starting: dict[asyncio.Task[None], int] = {}  # with their urgency
        # by lease: what was leased again meanwhile is somebody else's to mark
        self._started: defaultdict[datetime, list[str]] = defaultdict(list)
        self._failed: defaultdict[datetime, list[str]] = defaultdict(list)
        self._trouble: Exception | None = None
        self._backoff = 0.0

    async def run(self) -> None:
        """Relay until cancelled; what is being started then is still started. A database or a
        Temporal that is away is waited for."""
        await self._doorbell.listen()
        leasing: asyncio.Task[int] | None = None
        try:
            while True:
                room = await self._room()
                leasing = asyncio.create_task(self._lease_and_start(room))
                found = await asyncio.shield(leasing)
                if self._trouble is not None:
                    await self._back_off()
                elif found < room:
                    await self._doorbell.wait(_MARK_SECONDS if self._started else _IDLE_SECONDS)
        finally:
            if leasing is not None:
                await asyncio.wait([leasing], timeout=_LEAVE_SECONDS)
                leasing.cancel()  # what it has leased without our knowing, another takes in time
            await self._settle()

    async def relay_once(self) -> int:
        """One round by itself: lease, start, and wait for that; returns how many were leased."""
        found = await self._lease_and_start(self._batch)
        await self._settle()
        return found

    async def finish(self) -> None:
        """Mark what was started, without leasing more: the last step of a clean shutdown."""
        async with self._database.write() as connection:
            await self._settle_accounts(connection)

    async def _lease_and_start(self, limit: int) -> int:
        """Lease at most `limit` rows (0: what people ask for, alone) and begin to start or wake
        their workflows; how many."""
        try:
            read_at = asyncio.get_running_loop().time()
            async with self._database.write() as connection:
                await self._settle_accounts(connection)
                rows = await self._claim(connection, limit)
            if not rows:
                return 0
            instruments.RELAY_BATCH.record(len(rows))
            async with self._database.read() as connection:
                claimed = await self._loader.prime(connection, rows, read_at=read_at)
        except Exception as error:  # the relay outlives every trouble, of the database or ours
            self._trouble = error
            return 0
        for row, target in claimed:
            task = asyncio.create_task(self._start(row, target), name=f"start-{row.delivery_id}")
            self._starting[task] = row.urgency
            task.add_done_callback(self._starting.pop)
        return len(rows)

    async def _claim(self, connection: AsyncConnection, limit: int) -> list[PendingDelivery]:
        claim = partial(outbox.claim, connection, lease=self._lease, now=self._clock())
        if not limit:
            return await claim(limit=self._batch, least_urgent=Urgency.WISH)
        if not self._lateness.now:
            return await claim(limit=limit)
        rows = await claim(limit=limit, least_urgent=Urgency.RETRY)
        new = sum(urgency >= Urgency.FIRST for urgency in self._starting.values())
        if (few := min(limit - len(rows), _NEW_WHILE_LATE - new)) > 0:
            rows += await claim(limit=few, most_urgent=Urgency.FIRST)
        return rows

    async def _settle_accounts(self, connection: AsyncConnection) -> None:
        """Mark what was started since the last time, and give back what could not be."""
        # A commit that fails after this costs nothing but the leases' running out.
        while self._started:
            lease, ids = self._started.popitem()
            await outbox.mark_started(connection, ids, leased_until=lease, now=self._clock())
        while self._failed:
            lease, ids = self._failed.popitem()
            await outbox.release(connection, ids, leased_until=lease)

    async def _room(self) -> int:
        """How many more may be leased: as many as are under way at once wait for their turn. Half
        of them go first, or what goes within a moment: each lease spends a transaction."""
        most = min(self._batch, 2 * self._window.size)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WISH_SECONDS):
                while len(self._starting) > most // 2:
                    await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
        return max(0, most - len(self._starting))

    async def _settle(self) -> None:
        if self._starting:
            await asyncio.wait(self._starting)

    async def _start(self, row: PendingDelivery, target: Target) -> None:
        """Start or wake one delivery's workflow, and note whether that went well."""
        with spans.start_of_delivery(
            self._loader.traceparent_of(row.event_id),
            event_type=row.event_type,
            # a row that was put back has waited since then only
            since=self._clock() if row.wakes else row.created_at,
            ids={"delivery": row.delivery_id, "endpoint": row.endpoint_id},
        ):
            result = await self._start_workflow(row, target)
        instruments.RELAY_STARTS.add(result=result)

    async def _start_workflow(self, row: PendingDelivery, target: Target) -> str:
        """What came of it: `started`, `exists`, `failed` or `refused`."""
        result = "started"
        lease = row.leased_until or row.created_at
        try:
            async with self._window.turn(row.urgency):
                await start_or_wake(
                    self._client, row, target, fast_lane_timeout=self._fast_lane_timeout
                )
        except WorkflowAlreadyStartedError:
            result = "exists"  # it has run: as good as started
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                self._failed[lease].append(row.delivery_id)
                self._trouble = error
                return "failed"
            self._refused(row, error)
            return "refused"
        except Exception as error:  # ours: one row must not hold up the others
            self._refused(row, error)
            return "refused"
        self._started[lease].append(row.delivery_id)
        self._backoff = 0.0
        return result

    def _refused(self, row: PendingDelivery, error: Exception) -> None:
        """Not Temporal's being away but our fault: the row keeps its lease, so that it is tried
        again only when that runs out."""
        log.error("A delivery cannot be started.", delivery_id=row.delivery_id, exc_info=error)

    async def _back_off(self) -> None:
        error, self._trouble = self._trouble, None
        await self._settle()
        self._backoff = min(max(self._backoff * 2, _BACKOFF_FIRST), _BACKOFF_LONGEST)
        pause = self._backoff * random.uniform(0.5, 1.0)  # noqa: S311 - twins should not march in step
        if isinstance(error, SQLAlchemyError | OSError | RPCError):
            log.warning(
                "The relay waits for the database or Temporal.",
                error=f"{type(error).__name__}: {str(error)[:200]}",
                retry_in_seconds=round(pause, 2),
            )
        else:
            log.error("The relay failed and goes on.", exc_info=error)
        await asyncio.sleep(pause)
