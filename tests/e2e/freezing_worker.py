"""A real worker that stops itself, with SIGSTOP, once `COUNT` deliveries have reached the point
that `FREEZE_AT` names:

admitted   the gate has admitted the attempt; nothing is sent
held       the gate has not admitted the attempt; the hold is not written
requested  the connection is open; nothing is sent
answered   the receiver has answered; nothing is recorded
recording  the record is about to be written
recorded   the attempt is committed; the workflow does not know
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from datetime import timedelta
from typing import Any

from temporalio.worker import Worker

import worker
from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from activities.delivery import DeliveryActivities
from hookfast.sender import Sender
from hookfast.storage.deliveries.recorder import Recorder
from tests.e2e.breakpoints import THAWED_ENDED, after, before

_COUNT = int(os.environ["COUNT"])
_arrived: set[asyncio.Task[Any]] = set()
_thawed = asyncio.Event()


async def _report_end(tasks: set[asyncio.Task[Any]]) -> None:
    """Print THAWED_ENDED when the steps that were frozen have ended."""
    await asyncio.wait(tasks)
    print(THAWED_ENDED, flush=True)


async def _freeze() -> None:
    """Wait for the other deliveries; the last one to arrive stops the process."""
    if _thawed.is_set():
        return
    task = asyncio.current_task()
    assert task is not None
    _arrived.add(task)
    if len(_arrived) == _COUNT:
        os.kill(os.getpid(), signal.SIGSTOP)
        _thawed.set()
        asyncio.create_task(_report_end(_arrived.copy()))  # noqa: RUF006 - the loop outlives it
    await _thawed.wait()


freeze_before = functools.partial(before, act=_freeze)
freeze_after = functools.partial(after, act=_freeze)

match os.environ["FREEZE_AT"]:
    case "admitted":
        DeliveryActivities._attempt = freeze_before(DeliveryActivities._attempt)  # type: ignore[method-assign]
        BatchActivities._plan = freeze_after(BatchActivities._plan)  # type: ignore[method-assign]
    case "held":
        DeliveryActivities._decide = freeze_before(DeliveryActivities._decide)  # type: ignore[method-assign]
    case "requested":
        AttemptRunner._confirm = freeze_before(AttemptRunner._confirm)  # type: ignore[method-assign]
    case "answered":
        Sender.post = freeze_after(Sender.post)  # type: ignore[method-assign]
    case "recording":
        Recorder.record = freeze_before(Recorder.record)  # type: ignore[method-assign]
    case "recorded":
        Recorder.record = freeze_after(Recorder.record)  # type: ignore[method-assign]

worker.Worker = functools.partial(  # type: ignore[misc, assignment]
    Worker, sticky_queue_schedule_to_start_timeout=timedelta(seconds=1)
)
worker.main()
