"""The first attempts of a batch, made side by side, each as a delivery's own step would make it.

A delivery is in the batch's hands until the time in its row (`batch_until`), and nobody else
attempts it before then. What each order of things protects against:

- Each attempt is recorded by itself, as soon as it has ended: a crash repeats those that were not.
- A delivery that is not delivered goes into the outbox in the transaction that records so. A crash
  right after it, and a batch that is never heard of again, lose nothing.
- A request that takes long goes on while its batch ends. Its row says until when; if its worker
  dies, the delivery's own workflow makes the attempt after that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from activities.heartbeat import heartbeat
from activities.hold import Hold
from activities.lanes import Lanes
from activities.requests import NoLongerDue, Planned, Requests
from activities.time_left import TimeLeft
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.batch_messages import (
    ATTEMPT,
    RECORD,
    WORKFLOW_TYPE,
    BatchInput,
    BatchResult,
    RecordBatchInput,
    Unrecorded,
    summary,
    workflow_id,
)
from hookfast.deliveries.life import Attempt, AttemptEnded, Phase, Trigger, next_step
from hookfast.deliveries.messages import DELIVERIES_QUEUE
from hookfast.deliveries.time_budget import RECORD_SHARE, SLACK
from hookfast.dispatch.batches import Batch, Batches, closed_batch
from hookfast.dispatch.unhealthy_endpoints import UnhealthyEndpoints
from hookfast.endpoints.circuit import Admission, admit
from hookfast.errors import HookfastError, NotFound
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, News, Recorder
from hookfast.storage.endpoints import endpoints

_LOOK_SECONDS = 0.1
"""How often a batch looks for requests that take long. With all others done, they leave the worker
free for another batch after so long: else the first deliveries to an endpoint that never answers
would hold up everybody's for a second."""
_LONGEST = timedelta(seconds=5)
"""A batch that has not ended after that leaves everything behind: then this worker is too busy."""

log = structlog.get_logger()

_Kept = TypeVar("_Kept")


class _Write(Protocol):
    """What changes rows of a batch."""

    async def __call__(self, connection: AsyncConnection, *, batch_id: str) -> None: ...


class _Fate(Enum):
    """What became of a delivery in its batch."""

    DELIVERED = auto()
    CONTINUES = auto()  # its row says so already
    LEAVES = auto()  # and its row has yet to say so
    RETURNED = auto()  # nothing was begun
    UNRECORDED = auto()


@dataclass(frozen=True, slots=True)
class _Result:
    fate: _Fate
    why: str = ""
    unrecorded: Unrecorded | None = None


_GIVEN_UP = _Result(_Fate.CONTINUES, "given up")


_Tasks = dict["asyncio.Task[_Result]", Hold]


class BatchActivities:
    """One per worker process."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        requests: Requests,
        recorder: Recorder,
        unhealthy: UnhealthyEndpoints,
        batches: Batches,
        on_news: Callable[[News], None],
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._requests = requests
        self._recorder = recorder
        self._unhealthy = unhealthy
        self._on_news = on_news
        self._batches = batches
        self._clock = clock
        self._under_way: set[asyncio.Task[Any]] = set()

    @activity.defn(name=ATTEMPT)
    async def attempt_batch(self, input: BatchInput) -> BatchResult:
        """Make the first attempts of these deliveries and of those that are added meanwhile.
        Deliveries that do not belong to this batch any more are left alone."""
        async with heartbeat() as pulse:
            left = TimeLeft(pulse)
            batch = self._batches.get(input.batch_id) or closed_batch(input.batch_id)
            try:
                results = await self._attempt_all(input, batch, left)
            finally:
                batch.end()
            if left.fits(0):
                await self._settle(results, input.batch_id)
            return _report(results)

    async def _attempt_all(
        self, input: BatchInput, batch: Batch, left: TimeLeft
    ) -> dict[str, _Result]:
        """Attempt the deliveries of the batch. Return the result of each, in order of arrival."""
        lanes = Lanes(self._loader, batch.id)
        came: list[str] = []
        pending: _Tasks = {}

        def take(delivery_ids: Sequence[str]) -> None:
            came.extend(delivery_ids)
            lanes.add(delivery_ids)
            endpoints = self._loader.endpoints_of(delivery_ids)
            for one in delivery_ids:
                hold = Hold(one, endpoints.get(one, ""), left)
                pending[self._keep(asyncio.create_task(self._first(hold, batch.id, lanes)))] = hold

        await self._loader.renew(input.delivery_ids, batch_id=batch.id)
        take(input.delivery_ids)
        batch.open(take)
        results: dict[str, _Result] = {}
        ends_at = asyncio.get_running_loop().time() + _LONGEST.total_seconds()
        while pending or not batch.complete.done():
            due = asyncio.get_running_loop().time() + _LOOK_SECONDS
            awaited: set[asyncio.Future[Any]] = {*pending, batch.complete}
            await asyncio.wait(awaited, timeout=_LOOK_SECONDS)
            ended = {
                pending.pop(task).delivery_id: task.result()
                for task in [task for task in pending if task.done()]
            }
            now = asyncio.get_running_loop().time()
            if not left.fits(0):
                # This worker was frozen, and another has the batch: what rows say is its to change.
                given_up = {hold.delivery_id: _GIVEN_UP for hold in pending.values()}
                return results | ended | given_up
            for hold in pending.values():
                hold.excuse(now - due)
            ended |= await self._leave_behind(pending, input.batch_id, everything=now > ends_at)
            results |= ended
            batch.finished(ended)
            if now > ends_at:
                batch.end()
            elif pending and _rests(pending.values()):
                batch.rest()
        return {one: results[one] for one in came}

    @activity.defn(name=RECORD)
    async def record_batch(self, input: RecordBatchInput) -> None:
        """Record attempts whose record failed. The excerpts of the answers are lost then: bodies do
        not enter workflow history."""
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
        self._on_news(News.EVENTS)

    async def close(self) -> None:
        """Wait for the requests that go on, and their records."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    # -- one delivery --------------------------------------------------------------------------

    async def _first(self, hold: Hold, batch_id: str, lanes: Lanes) -> _Result:
        try:
            async with lanes.turn(hold):
                planned = await self._look(hold, batch_id)
                if isinstance(planned, _Result):
                    return planned
                if not hold.fits(planned.time_needed):
                    return _Result(_Fate.RETURNED)
                hold.begin()
                made = await self._requests.send_and_record(planned, hold)
        except NotFound:
            log.error("A delivery has no row; it is left out.", delivery_id=hold.delivery_id)
            return _Result(_Fate.CONTINUES, "it has no row")
        except NoLongerDue:
            return _Result(_Fate.LEAVES, "it changed")
        except (HookfastError, SQLAlchemyError, OSError) as error:  # ours, and nothing was sent
            log.warning(
                "A first attempt could not be made; it is tried again.",
                delivery_id=hold.delivery_id,
                error=type(error).__name__,
            )
            return _Result(_Fate.RETURNED)
        if made.change is None:
            late = Unrecorded.of(hold.delivery_id, planned.endpoint_id, made.ended)
            return _Result(_Fate.UNRECORDED, "recorded late", late)
        if made.outcome.succeeded:
            self._unhealthy.mark_healthy(planned.endpoint_id)
        else:
            self._unhealthy.mark_unhealthy(planned.endpoint_id)
        if made.change.after.phase is Phase.DELIVERED:
            return _Result(_Fate.DELIVERED)
        return _Result(_Fate.CONTINUES, str(made.outcome.status_code or made.outcome.result.value))

    async def _look(self, hold: Hold, batch_id: str) -> Planned | _Result:
        """The first attempt, where it is the batch's to make and there is no reason not to."""
        outgoing = await self._loader.load(hold.delivery_id, fresh=True)
        life, now = outgoing.life, self._clock()
        if outgoing.batch_id != batch_id or life.batch_until is None or life.batch_until <= now:
            # Done before a crash, or somebody else's by now.
            if life.phase is Phase.DELIVERED:
                return _Result(_Fate.DELIVERED)
            return _Result(_Fate.CONTINUES, life.status.value)
        hold.take(outgoing.target)
        hold.extend(life.batch_until, now=now)
        attempt = next_step(life, now, in_batch=True)
        if not isinstance(attempt, Attempt) or attempt.trigger is not Trigger.FIRST:
            return _Result(_Fate.LEAVES, life.status.value)
        verdict = admit(
            outgoing.gate, hold.delivery_id, attempt=attempt, released=outgoing.life.released
        )
        if verdict is not Admission.SEND:
            return _Result(_Fate.LEAVES, "its endpoint takes nothing now")
        if outgoing.target.limits is not None:
            return _Result(_Fate.LEAVES, "its endpoint has limits")
        return Planned(outgoing, attempt, self._clock, hold)

    async def _record(self, delivery_id: str, ended: AttemptEnded) -> None:
        try:
            await self._recorder.record(
                AttemptRecord(delivery_id=delivery_id, ended=ended, limited=False, in_batch=True)
            )
        except NotFound:
            log.error("A delivery has no row; its record is lost.", delivery_id=delivery_id)

    # -- what becomes of them ------------------------------------------------------------------

    async def _leave_behind(
        self, pending: _Tasks, batch_id: str, *, everything: bool
    ) -> dict[str, _Result]:
        """Those whose endpoints are slow leave the batch, and `pending`: a request that has begun
        goes on, and the others to the same endpoint are not made here."""
        slow = {hold.endpoint_id for hold in pending.values() if hold.slow}
        leaving = {
            task: hold
            for task, hold in pending.items()
            if everything or (hold.endpoint_id in slow and (hold.slow or not hold.begun))
        }
        now = self._clock()
        results: dict[str, _Result] = {}
        by_until: defaultdict[datetime, list[str]] = defaultdict(list)
        for task, hold in leaving.items():
            del pending[task]
            if hold.target is None or not hold.begun:
                task.cancel()
                results[hold.delivery_id] = _Result(_Fate.RETURNED)
                continue
            until = now + timedelta(seconds=hold.target.timeout_seconds) + RECORD_SHARE + SLACK
            # Before the row says so: the request looks at the row right before its first byte.
            hold.leave(until, now=now)
            if hold.slow:
                self._unhealthy.mark_unhealthy(hold.target.endpoint_id)
            by_until[until].append(hold.delivery_id)
            results[hold.delivery_id] = _Result(_Fate.CONTINUES, "no answer yet")
            self._keep(asyncio.create_task(self._late(task, hold, batch_id)))
        await self._write(
            [
                partial(outbox.leave_batch, delivery_ids=ids, under_way_until=at)
                for at, ids in by_until.items()
            ],
            batch_id,
        )
        return results

    async def _late(self, task: asyncio.Task[_Result], hold: Hold, batch_id: str) -> None:
        """See a request to its end that its batch did not wait for."""
        result = await task
        match result.fate:
            case _Fate.UNRECORDED if result.unrecorded is not None:
                await self._hand_over(result.unrecorded, batch_id)
            case _Fate.LEAVES | _Fate.RETURNED:
                await self._settle({hold.delivery_id: replace(result, fate=_Fate.LEAVES)}, batch_id)
            case _:  # recorded, and its row asks for its workflow
                self._on_news(News.EVENTS)

    async def _hand_over(self, late: Unrecorded, batch_id: str) -> None:
        """Have Temporal keep an attempt that the database did not take in time."""
        try:
            await self._client.start_workflow(
                WORKFLOW_TYPE,
                BatchInput(batch_id, unrecorded=(late,)),
                id=f"{workflow_id(batch_id)}/{late.delivery_id}",
                task_queue=DELIVERIES_QUEUE,
            )
        except RPCError as error:
            log.error(
                "An attempt could not be kept, and is made once more: nothing answers.",
                delivery_id=late.delivery_id,
                error=str(error)[:200],
            )

    async def _settle(self, results: dict[str, _Result], batch_id: str) -> None:
        """Write what the rows do not say yet."""
        leaving = _of(results, _Fate.LEAVES)
        returned = _of(results, _Fate.RETURNED)
        await self._write(
            [
                *([partial(outbox.leave_batch, delivery_ids=leaving)] if leaving else []),
                *([partial(outbox.return_from_batch, delivery_ids=returned)] if returned else []),
            ],
            batch_id,
        )
        if len(results) > len(_of(results, _Fate.DELIVERED)):
            self._on_news(News.EVENTS)

    async def _write(self, changes: Collection[_Write], batch_id: str) -> None:
        if not changes:
            return
        try:
            async with self._database.write() as connection:
                for change in changes:
                    await change(connection, batch_id=batch_id)
        except (SQLAlchemyError, OSError) as error:
            # Their leases run out, and then a relay takes them again.
            log.warning("A batch could not give deliveries back.", error=type(error).__name__)

    def _keep(self, task: asyncio.Task[_Kept]) -> asyncio.Task[_Kept]:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task


def _rests(holds: Collection[Hold]) -> bool:
    """Whether all of these wait for slow receivers, or for their turn with one."""
    slow = {hold.endpoint_id for hold in holds if hold.waits_for(_LOOK_SECONDS)}
    return all(
        hold.endpoint_id in slow and (not hold.begun or hold.waits_for(_LOOK_SECONDS))
        for hold in holds
    )


def _of(results: dict[str, _Result], fate: _Fate) -> list[str]:
    return [delivery_id for delivery_id, result in results.items() if result.fate is fate]


def _report(results: dict[str, _Result]) -> BatchResult:
    """The result of the batch."""
    delivered, returned = _of(results, _Fate.DELIVERED), _of(results, _Fate.RETURNED)
    unrecorded = [one.unrecorded for one in results.values() if one.unrecorded is not None]
    continued = {
        delivery_id: result.why
        for delivery_id, result in results.items()
        if result.fate in (_Fate.CONTINUES, _Fate.LEAVES, _Fate.UNRECORDED)
    }
    line = summary(
        len(results),
        delivered=len(delivered),
        continued=len(continued),
        returned=len(returned),
    )
    return BatchResult(line, delivered, continued, returned, unrecorded)
