"""A real worker that kills itself, with SIGKILL, at the point that `DIE_AT` names:

claimed   the relay has leased the delivery and committed that; its workflow is not started
started   Temporal has started the workflow; the relay has not marked it, and nothing is sent
sent      the receiver has answered; nothing is recorded
recorded  the attempt is committed; the workflow does not know
requested a job has requested some of its resends and has not committed that
opened    the attempt that opened a circuit is committed; the circuit's workflow is not started
answered  the receiver has answered a probe; nothing is recorded
succeeded a success is committed; neither its workflow nor the circuit's knows
emptied   nothing is held by a draining circuit any more; it is not closed
closed    the circuit is closed and that is committed; its workflow does not know
disabled  the endpoint is disabled and that is committed; its circuit's workflow does not know
adding    retention has moved figures to their day and has not committed that
added     retention has moved figures to their day and committed that
repairing a gauge is corrected and that is not committed
repaired  a gauge is corrected and that is committed; the comparison has not ended
dropping  retention has dropped a partition and has not committed that
dropped   retention has dropped the old partitions of a table; why others stay is not recorded
sweeping  retention has deleted a batch of rows and has not committed that
swept     retention has deleted a batch of rows and committed that; its workflow does not know
finishing retention has deleted everything; its run is not marked as finished

With `never` it runs on. With `each`, `STEPS` (JSON) names one of the first four points for each of
four deliveries, and the worker kills itself when each has reached its own.

`HEARTBEAT_TIMEOUT`, in seconds, replaces the longer timeouts after which
the death of a worker is noticed. `SWEEP_SECONDS` does so for the times after which deliveries,
circuits, mail and jobs without progress are found.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

import worker
from activities import heartbeat
from activities.circuit_breaker import CircuitActivities
from activities.retention import RetentionActivities
from hookfast.deliveries.facts import Trigger
from hookfast.deliveries.messages import workflow_id
from hookfast.dispatch import sweep
from hookfast.dispatch.workflow_starter import WorkflowStarter
from hookfast.sender import Sender
from hookfast.storage.counting import rollup
from hookfast.storage.database import partitions
from hookfast.storage.deliveries import jobs
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.figures import reconciliation
from hookfast.storage.retention import retention_runs
from tests.e2e.breakpoints import Call, after, before, kill_process
from workflows import circuit_breaker, delivery, retention


def before_a_probes(record: Call) -> Call:
    async def dying(self: Recorder, attempt: AttemptRecord, **options: Any) -> Any:
        if attempt.ended.attempt.trigger is Trigger.PROBE:
            kill_process()
        return await record(self, attempt, **options)

    return dying


def after_a_successes(record: Call) -> Call:
    async def dying(self: Recorder, attempt: AttemptRecord, **options: Any) -> Any:
        change = await record(self, attempt, **options)
        if attempt.ended.outcome.succeeded:
            kill_process()
        return change

    return dying


def at_commit_of(disable: Call) -> Call:
    @functools.wraps(disable)
    async def dying(self: CircuitActivities, endpoint_id: str) -> Any:
        self._on_commit = lambda committed: kill_process()
        return await disable(self, endpoint_id)

    return dying


class EachAtItsStep:
    """Holds each delivery of `steps` at its step, and kills the process when all have reached
    theirs. The one at `started` is the last: it would go on while the others are on their way. It
    sends nothing: Temporal may hand it to this worker before the worker knows that it is started.
    """

    def __init__(self, steps: dict[str, str]) -> None:
        self._steps = steps
        self._missing = set(steps.values()) - {"started"}
        self._others_wait = asyncio.Event()

    async def reach(self, step: str) -> None:
        """Wait for the end of the process."""
        self._missing.discard(step)
        if not self._missing:
            self._others_wait.set()
        await asyncio.Event().wait()

    def starting(self, call: Call) -> Call:
        async def wrapped(*args: Any, **options: Any) -> Any:
            match self._steps.get(options["id"].removeprefix(workflow_id(""))):
                case "claimed":
                    await self.reach("claimed")
                case "started":
                    await self._others_wait.wait()
                    await call(*args, **options)
                    kill_process()
            return await call(*args, **options)

        return wrapped

    def posting(self, call: Call) -> Call:
        async def wrapped(*args: Any, headers: dict[str, str], **options: Any) -> Any:
            step = self._steps.get(headers["webhook-id"])
            if step == "started":
                await self.reach("started")
            outcome = await call(*args, headers=headers, **options)
            if step == "sent":
                await self.reach("sent")
            return outcome

        return wrapped

    def recording(self, call: Call) -> Call:
        async def wrapped(recorder: Recorder, attempt: AttemptRecord, **options: Any) -> Any:
            change = await call(recorder, attempt, **options)
            if self._steps.get(attempt.delivery_id) == "recorded":
                await self.reach("recorded")
            return change

        return wrapped


def shorten_timeouts(timeout: timedelta) -> None:
    """Make Temporal notice the death of a worker, this one or another, within this time."""
    heartbeat._EVERY_SECONDS = timeout.total_seconds() / 4
    # its activities report their progress, and not every second
    retention._HEARTBEAT_TIMEOUT = retention._QUICK = 5 * timeout
    # one activity dies at several steps, and would wait for longer each time
    retention._UNTIL_DONE = RetryPolicy(initial_interval=timeout, maximum_interval=timeout)
    circuit_breaker._HEARTBEAT_TIMEOUT = delivery.HEARTBEAT = timeout  # type: ignore[misc]
    circuit_breaker.CircuitBreakerWorkflow._run.__kwdefaults__["timeout"] = timeout
    worker.Worker = functools.partial(  # type: ignore[misc, assignment]
        Worker, sticky_queue_schedule_to_start_timeout=timedelta(seconds=1)
    )


if "HEARTBEAT_TIMEOUT" in os.environ:
    shorten_timeouts(timedelta(seconds=float(os.environ["HEARTBEAT_TIMEOUT"])))

if "SWEEP_SECONDS" in os.environ:
    every = timedelta(seconds=float(os.environ["SWEEP_SECONDS"]))
    sweep._SWEEP_EVERY = sweep._OVERDUE_AFTER = sweep._UNMOVED_AFTER = every

match os.environ["DIE_AT"]:
    case "each":
        each = EachAtItsStep(json.loads(os.environ["STEPS"]))
        Client.start_workflow = each.starting(Client.start_workflow)  # type: ignore[method-assign]
        Sender.post = each.posting(Sender.post)  # type: ignore[method-assign]
        Recorder.record = each.recording(Recorder.record)  # type: ignore[method-assign]
    case "claimed":
        Client.start_workflow = before(Client.start_workflow)  # type: ignore[method-assign]
    case "started":
        Client.start_workflow = after(Client.start_workflow)  # type: ignore[method-assign]
        # the worker may have the workflow's first task before it dies
        Sender.post = before(Sender.post, asyncio.Event().wait)  # type: ignore[method-assign]
    case "sent":
        Sender.post = after(Sender.post)  # type: ignore[method-assign]
    case "recorded":
        Recorder.record = after(Recorder.record)  # type: ignore[method-assign]
    case "requested":
        jobs.record_progress = before(jobs.record_progress)
    case "opened":
        WorkflowStarter.wake = lambda self: kill_process()  # type: ignore[method-assign]
    case "answered":
        Recorder.record = before_a_probes(Recorder.record)  # type: ignore[method-assign]
    case "succeeded":
        Recorder.record = after_a_successes(Recorder.record)  # type: ignore[method-assign]
    case "emptied":
        CircuitActivities._close = before(CircuitActivities._close)  # type: ignore[method-assign]
    case "closed":
        CircuitActivities._close = after(CircuitActivities._close)  # type: ignore[method-assign]
    case "disabled":
        disable = CircuitActivities.disable_endpoint
        CircuitActivities.disable_endpoint = at_commit_of(disable)  # type: ignore[method-assign]

    case "adding":
        retention_runs.count_figures = after(retention_runs.count_figures)
    case "added":
        rollup.delete_empty_gauges = before(rollup.delete_empty_gauges)
    case "repairing":
        retention_runs.count_corrected = after(retention_runs.count_corrected)
    case "repaired":
        reconciliation.correct = after(reconciliation.correct)
    case "dropping":
        partitions.drop = after(partitions.drop)
    case "dropped":
        retention_runs.set_pinned = before(retention_runs.set_pinned)
    case "sweeping":
        retention_runs.advance = after(retention_runs.advance)
    case "swept":
        RetentionActivities._batch = after(RetentionActivities._batch)  # type: ignore[method-assign]
    case "finishing":
        retention_runs.finish = before(retention_runs.finish)

worker.main()
