"""A real worker that kills itself, with SIGKILL, at one chosen line. `DIE_AT` names the line:

claimed   the relay has leased the delivery and committed that; its workflow is not started
started   Temporal has started the workflow; the relay has not marked it
sent      the receiver has answered; nothing is recorded
recorded  the attempt is committed; the workflow does not know
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from temporalio.client import Client

import worker
from hookfast.sender import Sender
from hookfast.storage.recorder import Recorder


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


match os.environ["DIE_AT"]:
    case "claimed":
        Client.start_workflow = before(Client.start_workflow)  # type: ignore[method-assign]
    case "started":
        Client.start_workflow = after(Client.start_workflow)  # type: ignore[method-assign]
    case "sent":
        Sender.post = after(Sender.post)  # type: ignore[method-assign]
    case "recorded":
        Recorder.record = after(Recorder.record)  # type: ignore[method-assign]

worker.main()
