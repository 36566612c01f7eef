"""Activities that Temporal's cancel button must not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow

_PATCH = "cancel-leaves-nothing-half-done"

Result = TypeVar("Result")


async def undisturbed(working: asyncio.Task[Result], cancel: Callable[[], None]) -> Result:
    """What the activity `working` gives, whoever cancels the workflow meanwhile: that is told to
    `cancel` at once, and for the caller to act on afterwards.

    An activity that is cancelled goes on for a moment, as a request cannot be taken back, and
    writes what came of it after all: behind the back of a workflow that did not wait for it.
    """
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        if workflow.patched(_PATCH):
            cancel()
        else:  # it began when activities were cancelled with their workflow
            working.cancel()
    return await working
