"""The first attempts of a batch, made concurrently, each as a delivery's own step would make it.

A delivery belongs to the batch until the time in its row (`batch_until`); nobody else attempts it
before then. What each ordering protects against:

- Each attempt is recorded by itself as soon as it has ended: a crash repeats only the unrecorded.
- The transaction that records a failed attempt puts the delivery into the outbox. A crash right
  after it, or a batch that is lost, loses nothing.
- A slow request continues after its batch has ended, within the lease in its row. If its worker
  dies, a relay takes the row when that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from activities.attempt import AttemptRunner, NoLongerDue, time_needed
from activities.batch_member import BatchMember, BatchRows
from activities.batch_results import GIVEN_UP, MemberResult, Status, result_of, with_status
from activities.heartbeat import TimeLeft, heartbeat
from hookfast.byte_budget import NoRoom
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.batch_life import Attempt, End, GiveUp, Leave, Wait
from hookfast.deliveries.batch_messages import (
    ATTEMPT,
    RECORD,
    WORKFLOW_TYPE,
    BatchInput,
    BatchResult,
    RecordBatchInput,
    Unrecorded,
    workflow_id,
)
from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger
from hookfast.deliveries.life import Phase
from hookfast.deliveries.mapping import MappingFailed
from hookfast.deliveries.messages import DELIVERIES_QUEUE
from hookfast.deliveries.time_budget import SLACK
from hookfast.dispatch.batches import Batch, Batches, batch_of_another
from hookfast.dispatch.pace import Pace
from hookfast.endpoints.gate import Admission
from hookfast.errors import HookfastError, NotFound
from hookfast.outage_log import DATABASE
from hookfast.sender import EgressUnavailable
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder, Wakeup
from hookfast.storage.endpoints import endpoints

log = structlog.get_logger()

_T = TypeVar("_T")


class _Write(Protocol):
    """A function that changes rows of a batch."""

    async def __call__(self, connection: AsyncConnection, *, batch_id: str) -> None: ...


class BatchActivities:
    """The activities of `BatchWorkflow`. One per worker process."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        runner: AttemptRunner,
        recorder: Recorder,
        pace: Pace,
        batches: Batches,
        on_commit: Callable[[Wakeup], None],
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._runner = runner
        self._recorder = recorder
        self._pace = pace
        self._on_commit = on_commit
        self._batches = batches
        self._clock = clock
        self._under_way: set[asyncio.Task[Any]] = set()

    @activity.defn(name=ATTEMPT)
    async def attempt_batch(self, input: BatchInput) -> BatchResult:
        """Make the first attempts of these deliveries and of those that are added meanwhile.
        Deliveries that no longer belong to this batch are skipped."""
        async with heartbeat() as heartbeats:
            left = TimeLeft(heartbeats, now=self._clock)
            batch = await self._batch_of(input)
            try:
                results = await self._attempt_all(batch, left)
            finally:
                batch.end()
            if left.fits(0):
                await self._settle(results, batch.id)
            return result_of(results)

    async def _batch_of(self, input: BatchInput) -> Batch:
        """Return the batch that this worker started; or, if another did or this one has attempted
        it already, one of the deliveries that were there when it began."""
        batch = self._batches.get(input.batch_id)
        if batch is not None and not batch.life.has_begun:
            return batch
        found = await self._loader.load_many(input.delivery_ids)
        return batch_of_another(input.batch_id, input.delivery_ids, found)

    async def _attempt_all(self, batch: Batch, left: TimeLeft) -> dict[str, MemberResult]:
        """Do what the batch says until it ends. Return the result of each delivery, in order of
        arrival."""
        rows = BatchRows(self._loader, batch)
        results: dict[str, MemberResult] = {}
        attempts: dict[str, asyncio.Task[MemberResult]] = {}

        def begin(delivery_id: str) -> None:
            member = BatchMember(delivery_id, batch, left)
            task = self._track(asyncio.create_task(self._attempt_first(member, batch.id, rows)))
            attempts[delivery_id] = task
            task.add_done_callback(partial(done, delivery_id))

        def done(delivery_id: str, task: asyncio.Task[MemberResult]) -> None:
            if batch.life.stage(delivery_id).in_hand:  # it did not leave before
                results[delivery_id] = task.result()
            batch.life.done(delivery_id)
            batch.wake()

        batch.open()
        while True:
            if not left.fits(0):
                # This worker was frozen and another has the batch now: it changes the rows.
                batch.life.given_up()
            match batch.next_step():
                case Attempt(delivery_ids):
                    for one in delivery_ids:
                        begin(one)
                case Leave(behind, back):
                    for one in behind:
                        self._let_continue(attempts[one], one, batch)
                        results[one] = MemberResult(Status.CONTINUES, "no answer yet")
                    for one in back:
                        batch.read.pop(one, None)
                        if one in attempts:
                            attempts[one].cancel()
                        results[one] = MemberResult(Status.RETURNED)
                case GiveUp(delivery_ids):
                    results |= dict.fromkeys(delivery_ids, GIVEN_UP)
                case Wait(until):
                    await batch.news(until)
                case End():
                    return {one: results[one] for one in batch.life.arrived}

    @activity.defn(name=RECORD)
    async def record_batch(self, input: RecordBatchInput) -> None:
        """Record attempts whose record failed. Their excerpts and evidence are lost, because
        bodies, URLs and headers do not enter workflow history."""
        async with heartbeat():
            async with self._database.read() as connection:
                plans = await endpoints.retry_plans(
                    connection, {one.endpoint_id for one in input.unrecorded}
                )
            await asyncio.gather(
                *(
                    self._record(one.delivery_id, one.ended(plans[one.endpoint_id]))
                    for one in input.unrecorded
                    if one.endpoint_id in plans
                )
            )
        self._on_commit(Wakeup.OUTBOX)

    async def close(self) -> None:
        """Wait for the requests that continue without their batch, and for their records."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    # -- one delivery --------------------------------------------------------------------------

    async def _attempt_first(
        self, member: BatchMember, batch_id: str, rows: BatchRows
    ) -> MemberResult:
        try:
            plan = await self._plan(member, batch_id, rows)
            if isinstance(plan, MemberResult):
                return plan
            outgoing, planned = plan
            async with self._runner.room(outgoing) as room:
                await self._runner.load(outgoing, room)
                if not member.begin(time_needed(outgoing) + SLACK.total_seconds()):
                    return MemberResult(Status.RETURNED)
                made = await self._runner.send_and_record(outgoing, planned, room, member)
        except NotFound:
            log.error("A delivery has no row; it is left out.", delivery_id=member.delivery_id)
            return MemberResult(Status.CONTINUES, "it has no row")
        except NoLongerDue:
            return MemberResult(Status.LEAVES_UNSAVED, "it changed")
        except MappingFailed:
            return MemberResult(Status.LEAVES_UNSAVED, "its mapping fails")
        except NoRoom:
            return MemberResult(Status.LEAVES_UNSAVED, "there was no room for its body")
        except EgressUnavailable:
            # Its own workflow waits between two tries; a relay would take it again at once.
            return MemberResult(Status.LEAVES_UNSAVED, "the egress proxy does not work")
        except (HookfastError, SQLAlchemyError) as error:  # ours, and nothing was sent
            DATABASE.failed(
                "A first attempt could not be made; it is tried again.",
                delivery_id=member.delivery_id,
                error=type(error).__name__,
            )
            return MemberResult(Status.RETURNED)
        except Exception as error:
            # It must not stop the others; its own workflow shows it, and pauses between two tries.
            log.error(
                "A first attempt failed unexpectedly.",
                delivery_id=member.delivery_id,
                exc_info=error,
            )
            return MemberResult(Status.LEAVES_UNSAVED, "it failed unexpectedly")
        outcome = made.ended.outcome
        if made.change is None:
            late = Unrecorded.of(member.delivery_id, outgoing.endpoint.endpoint_id, made.ended)
            return MemberResult(Status.UNRECORDED, "recorded late", late)
        if made.change.after.phase is Phase.DELIVERED:
            return MemberResult(Status.DELIVERED)
        return MemberResult(Status.CONTINUES, str(outcome.status_code or outcome.result.value))

    async def _plan(
        self, member: BatchMember, batch_id: str, rows: BatchRows
    ) -> tuple[Outgoing, AttemptPlan] | MemberResult:
        """Plan the first attempt, if the batch may make it; otherwise return how the delivery
        leaves."""
        outgoing = await rows.take(member.delivery_id)
        life, now = outgoing.row.life, self._clock()
        until = life.batched_until
        if outgoing.row.batch_id != batch_id or until is None or until <= now:
            # Attempted before a crash, or another worker's by now.
            if life.phase is Phase.DELIVERED:
                return MemberResult(Status.DELIVERED)
            return MemberResult(Status.CONTINUES, life.status.value)
        member.leased(until, now=now)
        planned, admission = outgoing.due(now, in_batch=True)
        if planned is None or planned.trigger is not Trigger.FIRST:
            return MemberResult(Status.LEAVES_UNSAVED, life.status.value)
        if admission is not Admission.SEND:
            return MemberResult(Status.LEAVES_UNSAVED, "its endpoint takes nothing now")
        if outgoing.endpoint.limits is not None:
            return MemberResult(Status.LEAVES_UNSAVED, "its endpoint has limits")
        stored = outgoing.stored_body
        if stored is not None and stored.is_large:
            return MemberResult(Status.LEAVES_UNSAVED, "its body is large")
        return outgoing, planned

    async def _record(self, delivery_id: str, ended: AttemptEnded) -> None:
        try:
            await self._recorder.record(
                AttemptRecord(delivery_id=delivery_id, ended=ended, limited=False, in_batch=True)
            )
        except NotFound:
            log.error("A delivery has no row; its record is lost.", delivery_id=delivery_id)

    # -- leaving the batch ---------------------------------------------------------------------

    def _let_continue(
        self, attempt: asyncio.Task[MemberResult], delivery_id: str, batch: Batch
    ) -> None:
        """Let a request continue without its batch, in a slot of its endpoint. Once the endpoint
        has its share of them, the batch begins no more requests to it."""
        slots, endpoint_id = self._pace.slow_requests, batch.life.endpoint_of(delivery_id)
        slots.hold(endpoint_id)
        late = self._track(asyncio.create_task(self._late(attempt, delivery_id, batch)))
        late.add_done_callback(lambda _: slots.release(endpoint_id))
        if slots.share_is_used(endpoint_id):
            batch.life.endpoint_full(endpoint_id)

    async def _late(
        self, attempt: asyncio.Task[MemberResult], delivery_id: str, batch: Batch
    ) -> None:
        """Wait for a request that outlives its batch, and hand on its result."""
        result = await attempt
        match result.status:
            case Status.UNRECORDED if result.unrecorded is not None:
                await self._hand_over(result.unrecorded, batch.id)
            case _:
                await self._settle({delivery_id: result}, batch.id)

    async def _hand_over(self, late: Unrecorded, batch_id: str) -> None:
        """Keep in Temporal an attempt that could not be recorded in time."""
        try:
            await self._client.start_workflow(
                WORKFLOW_TYPE,
                BatchInput(batch_id, unrecorded=(late,)),
                id=f"{workflow_id(batch_id)}/{late.delivery_id}",
                task_queue=DELIVERIES_QUEUE,
            )
        except RPCError as error:
            log.error(
                "Neither the database nor Temporal took an attempt; it is repeated.",
                delivery_id=late.delivery_id,
                error=str(error)[:200],
            )

    async def _settle(self, results: dict[str, MemberResult], batch_id: str) -> None:
        """Write the results that the rows do not have yet."""
        leaving = with_status(results, Status.LEAVES_UNSAVED)
        returned = with_status(results, Status.RETURNED)
        await self._write(
            [
                *([partial(outbox.leave_batch, delivery_ids=leaving)] if leaving else []),
                *([partial(outbox.return_from_batch, delivery_ids=returned)] if returned else []),
            ],
            batch_id,
        )
        if len(results) > len(with_status(results, Status.DELIVERED)):
            self._on_commit(Wakeup.OUTBOX)

    async def _write(self, changes: Collection[_Write], batch_id: str) -> None:
        if not changes:
            return
        try:
            async with self._database.write() as connection:
                for change in changes:
                    await change(connection, batch_id=batch_id)
        except SQLAlchemyError as error:
            # When their leases end, a relay takes them again.
            DATABASE.failed("A batch could not give deliveries back.", error=type(error).__name__)

    def _track(self, task: asyncio.Task[_T]) -> asyncio.Task[_T]:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task
