"""The worker process of a storm. Its requests name the process, so that a repeated request can be
explained by a fault of the worker that made it first. SIGUSR1 makes it die between two steps of the
relay: workflows are started, and their rows are not marked yet."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

from temporalio.client import Client

import worker
from hookfast.deliveries import headers
from hookfast.deliveries.messages import WORKFLOW_TYPE

_MOST_STARTS = 5

_start_workflow = Client.start_workflow
_starts_to_live: int | None = None


def _arm(*_: object) -> None:
    global _starts_to_live
    _starts_to_live = random.randint(1, _MOST_STARTS)


async def _start_and_perhaps_die(self: Client, workflow: Any, *args: Any, **options: Any) -> Any:
    global _starts_to_live
    handle = await _start_workflow(self, workflow, *args, **options)
    if _starts_to_live is not None and workflow == WORKFLOW_TYPE:
        _starts_to_live -= 1
        if _starts_to_live == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return handle


headers._USER_AGENT += f" worker/{os.getpid()}"
Client.start_workflow = _start_and_perhaps_die  # type: ignore[method-assign]
signal.signal(signal.SIGUSR1, _arm)
worker.main()
