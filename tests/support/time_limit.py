"""An end for tests that wait for what never comes.

pytest-timeout's alarm strikes outside of every task: it fails an async test, which goes on waiting
all the same, and so the teardown of its fixtures waits for ever, and with it the whole run. Here
such a test is cancelled a while before, as any task would be, and says what everybody waits for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Any

import pytest

_SHARE = 0.8  # of pytest-timeout's limit, which remains for what blocks the event loop


def limit_of(item: pytest.Item) -> float:
    """How many seconds an async test may take; 0 for as long as it likes."""
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker is not None else item.config.getini("timeout")
    return _SHARE * float(limit or 0)


def ending(test: Callable[..., Awaitable[None]], limit: float) -> Callable[..., Awaitable[None]]:
    """`test`, cancelled after `limit` seconds with a TimeoutError. Right before that every task
    says on standard error where it waits."""

    @wraps(test)
    async def ended(**arguments: Any) -> None:
        loop = asyncio.get_running_loop()
        look = loop.call_later(0.99 * limit, _print_tasks)
        try:
            async with asyncio.timeout(limit):
                await test(**arguments)
        finally:
            look.cancel()

    return ended


def _print_tasks() -> None:
    for task in asyncio.all_tasks():
        print(f"{task.get_name()} waits at", *_waits_at(task), sep="\n  ", file=sys.stderr)


def _waits_at(task: asyncio.Task[Any]) -> Iterator[str]:
    """Where each of a task's coroutines stands, the outermost first."""
    coroutine: Any = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        code = frame.f_code
        yield f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
