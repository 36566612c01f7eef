"""Waiting, as asyncio and threads do it. `generate.py` puts the second in place of the first."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AbstractContextManager, nullcontext

async_sleep = asyncio.sleep
sleep = time.sleep


def async_time_limit(seconds: float) -> asyncio.Timeout:
    """Limit a block to so many seconds. Raises TimeoutError."""
    return asyncio.timeout(seconds)


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Do nothing: a thread cannot be interrupted, so the limits of its socket have to do."""
    del seconds
    return nullcontext()


def async_connection_owner() -> object:
    """Return what the connections opened now belong to: the event loop."""
    return asyncio.get_running_loop()


def connection_owner() -> object:
    """Return what the connections opened now belong to: the process."""
    return os.getpid()
