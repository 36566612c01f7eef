"""The outbox relay: starts the workflow of every delivery that was committed and not yet started.

Any number of relays may run; leases keep them apart. The order of a round, and what each step's
crash leaves behind:

1. One transaction marks what the last round started and leases the next rows.
   Crash after: the leases run out and another relay takes the rows.
2. Start each workflow, under an id made of the delivery's.
   Crash after some: those run; their rows are leased again later, and Temporal answers the second
   start of the same id with "exists".
3. Remember them for the next round's step 1. Crash before: as above. An attempt's record marks its
   row too, so usually nothing is left to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio.client import Client
from temporalio.common import (
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock, utc_now
from hookfast.delivery import DELIVERIES_QUEUE, WORKFLOW_TYPE, workflow_id
from hookfast.delivery_start import Route, delivery_order, search_attributes, summary
from hookfast.storage import outbox
from hookfast.storage.doorbell import Doorbell
from hookfast.storage.engine import Database
from hookfast.storage.outbox import PendingDelivery
from hookfast.storage.outgoing import OutgoingLoader, Target

_IDLE_SECONDS = 1.0  # looks by itself this often, should the doorbell fail
_MARK_SECONDS = 0.2  # marks what it started this long after the last round, when nothing follows
_BACKOFF_LONGEST = 15.0
_START_TIMEOUT = timedelta(seconds=10)
_CONCURRENT_STARTS = 32

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
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._doorbell = doorbell
        self._batch = batch
        self._lease = lease
        self._fast_lane_timeout = fast_lane_timeout
        self._clock = clock
        self._starts = asyncio.Semaphore(_CONCURRENT_STARTS)
        self._started: list[str] = []
        self._backoff = 0.0

    async def run(self) -> None:
        """Relay until cancelled. A database or a Temporal that is away is waited for."""
        await self._doorbell.listen()
        while True:
            try:
                found = await self.relay_once()
            except (SQLAlchemyError, OSError) as error:
                await self._back_off("The relay cannot reach the database.", error)
                continue
            if found < self._batch:
                await self._doorbell.wait(_MARK_SECONDS if self._started else _IDLE_SECONDS)

    async def relay_once(self) -> int:
        """One round; returns how many rows it leased."""
        marking, self._started = self._started, []
        try:
            async with self._database.write() as connection:
                now = self._clock()
                await outbox.mark_started(connection, marking, now=now)
                rows = await outbox.claim(connection, limit=self._batch, lease=self._lease, now=now)
        except BaseException:
            self._started = marking + self._started
            raise
        if not rows:
            return 0
        async with self._database.read() as connection:
            claimed = await self._loader.prime(connection, rows)
        failures = [
            failure
            for failure in await asyncio.gather(*(self._start(*one) for one in claimed))
            if failure is not None
        ]
        if failures:
            await self._give_back([delivery_id for delivery_id, _ in failures])
            await self._back_off("The relay cannot start workflows.", failures[0][1])
        else:
            self._backoff = 0.0
        return len(rows)

    async def mark_now(self) -> None:
        """Mark what was started, without claiming more: the last step of a clean shutdown."""
        marking, self._started = self._started, []
        async with self._database.write() as connection:
            await outbox.mark_started(connection, marking, now=self._clock())

    async def _start(self, row: PendingDelivery, target: Target) -> tuple[str, Exception] | None:
        """Start one delivery's workflow; None, or why it could not be started now."""
        route = Route(target.url, target.plan, target.timeout_seconds)
        async with self._starts:
            try:
                await self._client.start_workflow(
                    WORKFLOW_TYPE,
                    delivery_order(row, route, fast_lane_timeout=self._fast_lane_timeout),
                    id=workflow_id(row.delivery_id),
                    task_queue=DELIVERIES_QUEUE,
                    # A second start of a delivery that runs or has run changes nothing. A row put
                    # back because its workflow was lost may run again.
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE
                    if row.reopened
                    else WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    request_eager_start=True,
                    search_attributes=search_attributes(row),
                    static_summary=summary(row, route),
                    rpc_timeout=_START_TIMEOUT,
                )
            except WorkflowAlreadyStartedError:
                pass  # it has run: as good as started
            except RPCError as error:
                if error.status is RPCStatusCode.INVALID_ARGUMENT:
                    # Not Temporal's being away but our fault: keep the lease, so that this row is
                    # tried again only when it runs out and holds up nobody else.
                    log.error(
                        "Temporal refuses to start a delivery.",
                        delivery_id=row.delivery_id,
                        error=error.message,
                    )
                    return None
                return row.delivery_id, error
        self._started.append(row.delivery_id)
        return None

    async def _give_back(self, delivery_ids: Sequence[str]) -> None:
        async with self._database.write() as connection:
            await outbox.release(connection, delivery_ids)

    async def _back_off(self, message: str, error: Exception) -> None:
        self._backoff = min(max(self._backoff * 2, 0.25), _BACKOFF_LONGEST)
        pause = self._backoff * random.uniform(0.5, 1.0)  # noqa: S311 - twins should not march in step
        log.warning(message, error=type(error).__name__, retry_in_seconds=round(pause, 2))
        await asyncio.sleep(pause)
