"""The event loop and the garbage collector of a process that runs for long."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
