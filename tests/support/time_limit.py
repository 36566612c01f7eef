"""A time limit for async tests that cancels the test and prints where every task waits.

pytest-timeout's alarm is raised outside of every task: it fails an async test, but the test's task
keeps waiting, so that the teardown of its fixtures, and with it the whole run, waits forever.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Any

import pytest

_SHARE = 0.8  # of pytest-timeout's limit, which still ends tests that block the event loop


def time_limit_of(item: pytest.Item) -> float:
    """Return how many seconds an async test may take; 0 means no limit."""
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker is not None else item.config.getini("timeout")
    return _SHARE * float(limit or 0)


def cancelled_after(
    test: Callable[..., Awaitable[None]], limit: float
) -> Callable[..., Awaitable[None]]:
    """Return the test with a time limit in seconds, after which it raises TimeoutError. Right
    before that it prints on standard error where every task waits."""

    @wraps(test)
    async def limited(**arguments: Any) -> None:
        loop = asyncio.get_running_loop()
        report = loop.call_later(0.99 * limit, _print_tasks)
        try:
            async with asyncio.timeout(limit):
                await test(**arguments)
        finally:
            report.cancel()

    return limited


def _print_tasks() -> None:
    for task in asyncio.all_tasks():
        print(f"{task.get_name()} waits at", *_stack_of(task), sep="\n  ", file=sys.stderr)


def _stack_of(task: asyncio.Task[Any]) -> Iterator[str]:
    """Yield the line at which each of a task's coroutines waits, the outermost first."""
    coroutine: Any = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        code = frame.f_code
        yield f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
