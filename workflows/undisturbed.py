"""Activities that Temporal's cancel button must not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def undisturbed(working: asyncio.Task[Result], cancelled: Callable[[], None]) -> Result:
    """What the activity `working` gives, whoever cancels the workflow meanwhile: `cancelled` hears
    of that at once, and the caller acts on it afterwards.

    An activity that is cancelled goes on for a moment, as a request cannot be taken back, and
    writes what came of it after all: behind the back of a workflow that did not wait for it.
    """
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cancelled()
    return await working
