"""Turns Ctrl-C and SIGTERM into cancellation; a second signal ends the clean-up early."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def hold_signals() -> None:
    """Have SIGINT and SIGTERM wait for `interruptible`, also while this process is replaced by
    another program: until that has imported its modules, they would end it with a traceback."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


@asynccontextmanager
async def interruptible() -> AsyncIterator[asyncio.Event]:
    """Cancel the block at the first SIGINT, SIGTERM or SIGHUP, and let it end without an error.

    Yields an event that a second signal sets, so that slow clean-up can be cut short.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    loop = asyncio.get_running_loop()
    hurry = asyncio.Event()
    signalled = False

    def on_signal() -> None:
        nonlocal signalled
        if signalled:
            hurry.set()
        else:
            signalled = True
            task.cancel()

    # Under nohup SIGHUP is ignored, and has to stay ignored.
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)  # see `hold_signals`
    try:
        yield hurry
    except asyncio.CancelledError:
        if not signalled or task.uncancel() > 0:
            raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
