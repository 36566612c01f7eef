"""The event loop, the garbage collector and the end of a process that runs for long."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

log = structlog.get_logger()


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop if it is installed, else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Import modules in this block without garbage collections, now and later, of what they create.

    It lives as long as the process, and of the CPU time in which the API or a worker starts, a
    fifth went into visiting it again and again. Only a hundredth of it is garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze_startup() -> None:
    """Exclude all objects that exist now from later garbage collections. Call this once, when the
    process is ready to work.

    Imports create some 170,000 objects that live as long as the process. A full collection visits
    them all and blocks for 40 ms; without them it takes microseconds.
    """
    gc.collect()
    gc.freeze()


def end_within(time_left: timedelta) -> None:
    """End this process after this time, if it has not ended by itself. Call it when the process
    begins to stop.

    Whatever a stop waits for may be silent: receivers, Temporal, the database, a collector. Nothing
    is lost by not waiting: what was not recorded is repeated with the same id.
    """

    def end() -> None:
        log.warning("The process did not stop in time and ends now.")
        os._exit(0)

    timer = threading.Timer(time_left.total_seconds(), end)
    timer.daemon = True
    timer.start()
