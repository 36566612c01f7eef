"""A real worker that kills itself, with SIGKILL, at one chosen line. `DIE_AT` names the line:

claimed   the relay has leased the delivery and committed that; its workflow is not started
started   Temporal has started the workflow; the relay has not marked it
sent      the receiver has answered; nothing is recorded
recorded  the attempt is committed; the workflow does not know
asked     a job has asked some of its deliveries and has not committed that
opened    the attempt that opened a circuit is committed; the circuit's workflow is not started
answered  the receiver has answered a probe; nothing is recorded
healed    a success is committed; its workflow does not know, nor does the circuit's
emptied   a draining circuit holds nothing any more; it is not closed
closed    the circuit is closed and that is committed; its workflow does not know
gave up   the endpoint is disabled and that is committed; its circuit's workflow does not know

With `never` it lives. `PATIENCE`, in seconds, is how long a sign of life may be missing: a test
need not wait as long as one would in earnest.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.worker import Worker

import worker
from activities import heartbeat
from activities.circuit_breaker import CircuitActivities
from hookfast.deliveries.facts import Trigger
from hookfast.dispatch.workflow_starter import WorkflowStarter
from hookfast.sender import Sender
from hookfast.storage.deliveries import jobs
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from workflows import circuit_breaker, delivery


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def before(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(*args: Any, **kwargs: Any) -> Any:
        die()

    return dying


def after(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(*args: Any, **kwargs: Any) -> Any:
        await call(*args, **kwargs)
        die()

    return dying


def when_probing(record: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(self: Recorder, attempt: AttemptRecord, **options: Any) -> Any:
        if attempt.ended.attempt.trigger is Trigger.PROBE:
            die()
        return await record(self, attempt, **options)

    return dying


def when_it_succeeded(record: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(self: Recorder, attempt: AttemptRecord, **options: Any) -> Any:
        change = await record(self, attempt, **options)
        if attempt.ended.outcome.succeeded:
            die()
        return change

    return dying


def telling_nobody(give_up: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(give_up)
    async def dying(self: CircuitActivities, endpoint_id: str) -> Any:
        self._on_commit = lambda news: die()
        return await give_up(self, endpoint_id)

    return dying


def be_impatient(patience: timedelta) -> None:
    """Notice the death of a worker, this one or another, within so long."""
    seconds = patience.total_seconds()
    heartbeat._EVERY_SECONDS = seconds / 4
    circuit_breaker._HEARTBEAT_TIMEOUT = delivery._HEARTBEAT_TIMEOUT = patience  # type: ignore[misc]
    defaults = circuit_breaker.CircuitBreakerWorkflow._do.__kwdefaults__
    defaults["timeout"] = patience
    worker.Worker = functools.partial(  # type: ignore[misc, assignment]
        Worker, sticky_queue_schedule_to_start_timeout=timedelta(seconds=1)
    )


if "PATIENCE" in os.environ:
    be_impatient(timedelta(seconds=float(os.environ["PATIENCE"])))

match os.environ["DIE_AT"]:
    case "claimed":
        Client.start_workflow = before(Client.start_workflow)  # type: ignore[method-assign]
    case "started":
        Client.start_workflow = after(Client.start_workflow)  # type: ignore[method-assign]
    case "sent":
        Sender.post = after(Sender.post)  # type: ignore[method-assign]
    case "recorded":
        Recorder.record = after(Recorder.record)  # type: ignore[method-assign]
    case "asked":
        jobs.record_progress = before(jobs.record_progress)
    case "opened":
        WorkflowStarter.ring = lambda self: die()  # type: ignore[method-assign]
    case "answered":
        Recorder.record = when_probing(Recorder.record)  # type: ignore[method-assign]
    case "healed":
        Recorder.record = when_it_succeeded(Recorder.record)  # type: ignore[method-assign]
    case "emptied":
        CircuitActivities._close = before(CircuitActivities._close)  # type: ignore[method-assign]
    case "closed":
        CircuitActivities._close = after(CircuitActivities._close)  # type: ignore[method-assign]
    case "gave up":
        CircuitActivities.give_up = telling_nobody(CircuitActivities.give_up)  # type: ignore[method-assign]

worker.main()
