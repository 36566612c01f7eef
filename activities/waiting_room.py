"""Attempts in the regular queue that wait for room for their bodies: few in their slots, and the
others in Temporal."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.attempt import AttemptRunner
from hookfast.byte_budget import NoRoom
from hookfast.deliveries.time_budget import ROOM
from hookfast.slots import Slots
from hookfast.storage.deliveries.bodies import AttemptRoom
from hookfast.storage.deliveries.outgoing import Outgoing
from hookfast.telemetry import instruments

_PLACES = 16
"""So many attempts wait while they occupy slots, which others need that find room."""
_LONGEST_PAUSE = 30.0  # seconds between two tries


class WaitingRoom:
    """The places of one worker process, which its tenants share."""

    def __init__(self, runner: AttemptRunner) -> None:
        self._runner = runner
        self._places = Slots(_PLACES)

    @asynccontextmanager
    async def room(self, outgoing: Outgoing) -> AsyncIterator[AttemptRoom]:
        """Yield room for the body of an attempt. Without a place to wait, or after a few seconds,
        raises NoRoom."""
        async with AsyncExitStack() as stack:
            with self._places.enter(outgoing.endpoint.tenant_id) as may_wait:
                room = await stack.enter_async_context(
                    self._runner.room(outgoing, within=ROOM.total_seconds() if may_wait else 0)
                )
            yield room


def postponed(tries: int) -> ApplicationError:
    """Return the error with which Temporal tries a step again that found no room so many times: in
    about 1, 2, 4, 8, 16 and then 30 seconds, so that many that wait do not occupy the worker."""
    instruments.POSTPONED_ATTEMPTS.add()
    longest = min(2.0 ** min(tries - 1, 10), _LONGEST_PAUSE)
    return ApplicationError(
        "This worker has no memory for the body now.",
        type=NoRoom.code,
        category=ApplicationErrorCategory.BENIGN,  # no failure, and counted already
        next_retry_delay=timedelta(seconds=longest * random.uniform(0.7, 1.3)),  # noqa: S311 - jitter
    )
