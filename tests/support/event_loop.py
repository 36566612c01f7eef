"""Tests that choose their event loop: asyncio's or uvloop.

While an async fixture of a session is alive, anyio runs every test on that fixture's loop, whatever
the test asks for. So tests that choose run first on each worker, and check their loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest


def chosen_loop(item: pytest.Item) -> str | None:
    """Return the package of the event loop that the test asks for; None if it takes any."""
    callspec = getattr(item, "callspec", None)
    backend = None if callspec is None else callspec.params.get("anyio_backend")
    if backend is None:
        return None
    return "uvloop" if backend[1]["use_uvloop"] else "asyncio"


def on_loop_of(
    package: str, test: Callable[..., Awaitable[None]]
) -> Callable[..., Awaitable[None]]:
    """Return `test`, made to fail on an event loop of another package."""

    @wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        loop = asyncio.get_running_loop()
        assert type(loop).__module__.partition(".")[0] == package
        await test(*args, **kwargs)

    return checked
