"""The batches that one worker's relay has begun, and how many of them are at work."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from hookfast.batch_start import start_batch
from hookfast.clock import Clock
from hookfast.storage.outbox import PendingDelivery
from hookfast.telemetry import instruments
from hookfast.time_budget import LOCAL_STEP

_LATER = timedelta(seconds=1)  # between two tries to start one
_LONGEST_SECONDS = 5.0  # one that takes longer is waited for no more: its worker is gone


@dataclass(frozen=True, slots=True)
class _Batch:
    """`endpoints`: how many deliveries of each. `rests` is done when all that is left of it waits
    for slow receivers, or nothing is."""

    endpoints: Counter[str]
    rests: asyncio.Future[None]


class Batches:
    """One per relay. `heard` is told what Temporal says to each start: None, or its error;
    `on_room` is called when there is room for more."""

    def __init__(
        self,
        client: Client,
        *,
        heard: Callable[[RPCError | None], None],
        on_room: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._client = client
        self._heard = heard
        self._on_room = on_room
        self._clock = clock
        self._known: dict[str, _Batch] = {}

    @property
    def at_work(self) -> list[asyncio.Future[None]]:
        """Those that keep the worker busy; each is done when it no longer does."""
        return [one.rests for one in self._known.values() if not one.rests.done()]

    def in_hand(self, endpoint_id: str) -> int:
        """How many of their deliveries are this endpoint's."""
        return sum(one.endpoints[endpoint_id] for one in self._known.values())

    def begin(
        self, batch_id: str, rows: Sequence[PendingDelivery], *, held_until: datetime
    ) -> None:
        """Start a batch of these rows, which are its own until then."""
        rests = asyncio.get_running_loop().create_future()
        self._known[batch_id] = _Batch(Counter(row.endpoint_id for row in rows), rests)
        ids = [row.delivery_id for row in rows]
        task = asyncio.create_task(self._run(batch_id, ids, held_until), name=batch_id)
        self.running.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self.running.discard(task)
            self.rest(batch_id)
            del self._known[batch_id]
            self._on_room()  # its endpoints may have more waiting than an endpoint may have in hand

        task.add_done_callback(over)

    def rest(self, batch_id: str) -> None:
        """All that is left of this one waits for slow receivers."""
        known = self._known.get(batch_id)
        if known is not None and not known.rests.done():
            known.rests.set_result(None)

    async def _run(self, batch_id: str, ids: Sequence[str], held_until: datetime) -> None:
        while True:
            try:
                handle = await start_batch(self._client, batch_id, ids)
            except RPCError as error:
                # It may have been started all the same, so the rows remain its own: it is asked for
                # again, under the same id, for as long as it has the time to make its attempts.
                instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="failed")
                self._heard(error)
                if self._clock() + _LATER + LOCAL_STEP > held_until:
                    return
                await asyncio.sleep(_LATER.total_seconds())
            else:
                break
        instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="started")
        self._heard(None)
        with contextlib.suppress(TimeoutError, RPCError, WorkflowFailureError):
            async with asyncio.timeout(_LONGEST_SECONDS):
                await handle.result()
