"""A real worker that stops itself, with SIGSTOP, once `COUNT` deliveries have come to one line.
`FREEZE_AT` names the line:

admitted   the gate lets the attempt go; nothing is sent
held       the gate does not let it go; that is not written
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
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio.worker import Worker

import worker
from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from activities.delivery import DeliveryActivities
from hookfast.sender import Sender
from hookfast.storage.deliveries.recorder import Recorder

_COUNT = int(os.environ["COUNT"])
_arrived: set[asyncio.Task[Any] | None] = set()
_thawed = asyncio.Event()

Call = Callable[..., Awaitable[Any]]


async def _freeze() -> None:
    """Wait for the others, then stop the process: one of them does, for all."""
    if _thawed.is_set():
        return
    _arrived.add(asyncio.current_task())
    if len(_arrived) == _COUNT:
        os.kill(os.getpid(), signal.SIGSTOP)
        _thawed.set()
    await _thawed.wait()


def before(call: Call) -> Call:
    async def freezing(*args: Any, **kwargs: Any) -> Any:
        await _freeze()
        return await call(*args, **kwargs)

    return freezing


def after(call: Call) -> Call:
    async def freezing(*args: Any, **kwargs: Any) -> Any:
        result = await call(*args, **kwargs)
        await _freeze()
        return result

    return freezing


match os.environ["FREEZE_AT"]:
    case "admitted":
        DeliveryActivities._admit = after(DeliveryActivities._admit)  # type: ignore[method-assign]
        BatchActivities._look = after(BatchActivities._look)  # type: ignore[method-assign]
    case "held":
        DeliveryActivities._admit = before(DeliveryActivities._admit)  # type: ignore[method-assign]
    case "requested":
        AttemptRunner._confirm = before(AttemptRunner._confirm)  # type: ignore[method-assign]
    case "answered":
        Sender.post = after(Sender.post)  # type: ignore[method-assign]
    case "recording":
        Recorder.record = before(Recorder.record)  # type: ignore[method-assign]
    case "recorded":
        Recorder.record = after(Recorder.record)  # type: ignore[method-assign]

worker.Worker = functools.partial(  # type: ignore[misc, assignment]
    Worker, sticky_queue_schedule_to_start_timeout=timedelta(seconds=1)
)
worker.main()
