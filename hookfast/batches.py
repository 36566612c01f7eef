"""The batches that a worker has in hand, which its relay fills and its activity attempts.

A batch is started with the deliveries that were waiting. While its attempts are made it stays open,
and the relay adds what comes meanwhile: that costs no workflow and waits for none. What was added
is lost with the worker, not with the batch: its rows are free again when the time in them runs out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from hookfast.batch import MOST
from hookfast.batch_start import start_batch
from hookfast.clock import Clock, utc_now
from hookfast.storage.outbox import PendingDelivery
from hookfast.telemetry import instruments
from hookfast.time_budget import LOCAL_STEP

Take = Callable[[Sequence[str]], None]
Heard = Callable[[RPCError | None], None]

_OPEN_SECONDS = 1.0
"""A batch takes more for so long: at 50 deliveries a second that is one workflow for 50 of them."""
_LATER = timedelta(seconds=1)  # between two tries to start one
_LONGEST_SECONDS = 10.0  # one that takes longer is waited for no more: its worker is gone


class Batch:
    """One that this worker has in hand. `endpoints`: how many deliveries of each.

    `opens` is done when more may be added, or never will be; `complete` when nothing will be added
    any more; `rests` when all that is left of it waits for slow receivers, or nothing is.
    """

    def __init__(self, batch_id: str, rows: Sequence[PendingDelivery] = ()) -> None:
        loop = asyncio.get_running_loop()
        self.id = batch_id
        self.endpoints = Counter(row.endpoint_id for row in rows)
        self.opens: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.rests: asyncio.Future[None] = loop.create_future()
        self._take: Take | None = None
        self._closed = False
        self._adding = 0

    @property
    def room(self) -> int:
        """How many more it takes, once it is open."""
        return 0 if self._closed else MOST - self.endpoints.total()

    @property
    def is_opening(self) -> bool:
        """Whether it will take more as soon as its attempts begin."""
        return not self.opens.done() and self.room > 0

    @property
    def is_open(self) -> bool:
        """Whether more may be added now."""
        return self._take is not None and self.room > 0

    def open(self, take: Take) -> None:
        """Its attempts are made from now on, and those of what `take` is called with."""
        self._take = take
        _done(self.opens)
        if self.room:
            asyncio.get_running_loop().call_later(_OPEN_SECONDS, self.close)
        else:
            self.close()

    @contextmanager
    def adding(self) -> Iterator[None]:
        """While the block runs, deliveries are being leased for it: it waits for them."""
        self._adding += 1
        try:
            yield
        finally:
            self._adding -= 1
            if self._closed and not self._adding:
                _done(self.complete)

    def add(self, rows: Sequence[PendingDelivery]) -> bool:
        """Have these attempted, whose rows say that they are this batch's. False: it is over."""
        if self._take is None:
            return False
        self.endpoints.update(row.endpoint_id for row in rows)
        self._take([row.delivery_id for row in rows])
        if not self.room:
            self.close()
        return True

    def close(self) -> None:
        """It takes no more, but what is being leased for it."""
        self._closed = True
        _done(self.opens)
        if not self._adding:
            _done(self.complete)

    def rest(self) -> None:
        """All that is left of it waits for slow receivers: there is room for another."""
        self.close()
        _done(self.rests)

    def end(self) -> None:
        """Its attempts are over, whatever is being leased for it."""
        self._take = None
        self.rest()
        _done(self.complete)


class Batches:
    """One per worker. `on_room` is called when there is room for more."""

    def __init__(
        self, client: Client, *, on_room: Callable[[], None], clock: Clock = utc_now
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._client = client
        self._on_room = on_room
        self._clock = clock
        self._known: dict[str, Batch] = {}

    @property
    def at_work(self) -> list[Batch]:
        """Those that keep the worker busy."""
        return [one for one in self._known.values() if not one.rests.done()]

    @property
    def open(self) -> Batch | None:
        """One that takes more."""
        return next((one for one in self._known.values() if one.is_open), None)

    def in_hand(self, endpoint_id: str) -> int:
        """How many of their deliveries are this endpoint's."""
        return sum(one.endpoints[endpoint_id] for one in self._known.values())

    def known(self, batch_id: str) -> Batch:
        """The batch of this id; one that takes no more, where another worker had begun it."""
        if (known := self._known.get(batch_id)) is None:
            known = Batch(batch_id)
            known.close()
        return known

    def begin(
        self, batch_id: str, rows: Sequence[PendingDelivery], *, held_until: datetime, heard: Heard
    ) -> None:
        """Start a batch of these rows, which are its own until then. `heard` is told what Temporal
        says to each try: None, or its error."""
        self._known[batch_id] = known = Batch(batch_id, rows)
        ids = [row.delivery_id for row in rows]
        task = asyncio.create_task(self._run(batch_id, ids, held_until, heard), name=batch_id)
        self.running.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self.running.discard(task)
            del self._known[batch_id]
            known.end()
            self._on_room()  # its endpoints may have more waiting than an endpoint may have in hand

        task.add_done_callback(over)

    def close(self) -> None:
        """No batch takes more, so that each ends soon."""
        for one in self._known.values():
            one.close()

    async def _run(
        self, batch_id: str, ids: Sequence[str], held_until: datetime, heard: Heard
    ) -> None:
        while True:
            try:
                handle = await start_batch(self._client, batch_id, ids)
            except RPCError as error:
                # It may have been started all the same, so the rows remain its own: it is asked for
                # again, under the same id, for as long as it has the time to make its attempts.
                instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="failed")
                heard(error)
                if self._clock() + _LATER + LOCAL_STEP > held_until:
                    return
                await asyncio.sleep(_LATER.total_seconds())
            else:
                break
        instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="started")
        heard(None)
        with contextlib.suppress(TimeoutError, RPCError, WorkflowFailureError):
            async with asyncio.timeout(_LONGEST_SECONDS):
                await handle.result()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
