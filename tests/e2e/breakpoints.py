"""Functions that kill the process, or call something else, before or after a function of ours."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

THAWED_ENDED = "The steps that were frozen have ended."
"""The line that a frozen worker prints some time after SIGCONT."""

Call = Callable[..., Awaitable[Any]]
Action = Callable[[], Awaitable[object]]


def kill_process() -> NoReturn:
    """End this process with SIGKILL, as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


async def die() -> None:
    """End this process with SIGKILL, as a crash would."""
    kill_process()


def before(call: Call, act: Action = die) -> Call:
    """Return the function, with `act` called before it."""

    @functools.wraps(call)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        await act()
        return await call(*args, **kwargs)

    return wrapped


def after(call: Call, act: Action = die) -> Call:
    """Return the function, with `act` called after it."""

    @functools.wraps(call)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = await call(*args, **kwargs)
        await act()
        return result

    return wrapped
