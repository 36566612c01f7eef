"""The batches of this worker: its relay fills them, and its activity attempts them.

A batch starts with the waiting deliveries. It stays open while it attempts them, and the relay adds
new ones, which need no workflow and do not wait for one. If the worker dies, a relay takes the
added deliveries again as soon as the time in their rows ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.batch_messages import MOST, PER_ENDPOINT
from hookfast.deliveries.time_budget import LOCAL_STEP
from hookfast.dispatch.start import start_batch
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.telemetry import instruments

Take = Callable[[Sequence[str]], None]
OnStart = Callable[[RPCError | None], None]

_OPEN_SECONDS = 1.0
"""How long a batch stays open. At 50 deliveries a second that is one workflow for 50 of them."""
_NEXT_SECONDS = 0.85
"""The next batch is started when one has been open for so long, or is half full, so that nothing
waits for a workflow to start. At 350 deliveries a second p99 fell from 26 to 17 ms."""
_PAUSE = timedelta(seconds=1)  # between two tries to start a batch
_LONGEST_SECONDS = 10.0  # a batch that takes longer has lost its worker
_TOO_LONG_SECONDS = 2.5
"""A batch that takes longer is too large for this worker. After 5 s it gives its deliveries back,
to be claimed again, so that a worker with 0.15 cores fell from 60 deliveries a second to 10."""
_FEWEST = 2 * PER_ENDPOINT  # fewer would not use all requests that an endpoint may get at once


class Batch:
    """A batch of this worker. `in_progress` counts its unfinished deliveries by endpoint.

    `opens` is done once deliveries may be added, or never can be. `complete` is done when no more
    can be added, and `rests` when only requests to slow receivers are left. `most` is how many
    deliveries it takes, and `took` the seconds from its first attempts until it rested.
    """

    def __init__(
        self, batch_id: str, rows: Sequence[PendingDelivery] = (), *, most: int = MOST
    ) -> None:
        loop = asyncio.get_running_loop()
        self.id = batch_id
        self.took: float | None = None
        self._most = most
        self._opened_at: float | None = None
        self.in_progress: Counter[str] = Counter()
        self._endpoints: dict[str, str] = {}
        self.opens: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.rests: asyncio.Future[None] = loop.create_future()
        self._take: Take | None = None
        self._next_at = math.inf
        self._closed = False
        self._adding = 0
        self._note(rows)

    @property
    def room(self) -> int:
        """How many more deliveries fit into it."""
        return 0 if self._closed else max(0, self._most - len(self._endpoints))

    @property
    def is_opening(self) -> bool:
        """Whether deliveries can be added as soon as its attempts begin."""
        return not self.opens.done() and self.room > 0

    @property
    def is_open(self) -> bool:
        """Whether deliveries can be added now."""
        return self._take is not None and self.room > 0

    @property
    def closes_soon(self) -> bool:
        """Whether it is time to start the next batch."""
        return self.room <= self._most // 2 or asyncio.get_running_loop().time() > self._next_at

    def open(self, take: Take) -> None:
        """Let deliveries be added from now on: `take` is called with their ids to attempt them."""
        loop = asyncio.get_running_loop()
        self._take, self._opened_at = take, loop.time()
        _done(self.opens)
        if self.room:
            self._next_at = loop.time() + _NEXT_SECONDS
            loop.call_later(_OPEN_SECONDS, self.close)
        else:
            self.close()

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Keep the batch from being complete while deliveries are being leased for it."""
        self._adding += 1
        try:
            yield
        finally:
            self._adding -= 1
            if self._closed and not self._adding:
                _done(self.complete)

    def add(self, rows: Sequence[PendingDelivery]) -> bool:
        """Attempt these deliveries, which were leased for this batch. Return False if the batch has
        ended."""
        if self._take is None:
            return False
        self._note(rows)
        self._take([row.delivery_id for row in rows])
        if not self.room:
            self.close()
        return True

    def finished(self, delivery_ids: Iterable[str]) -> None:
        """Stop counting these deliveries: they were attempted, or have left the batch."""
        self.in_progress.subtract(
            self._endpoints[one] for one in delivery_ids if one in self._endpoints
        )

    def close(self) -> None:
        """Add no more deliveries, except those that are being leased for it already."""
        self._closed = True
        _done(self.opens)
        if not self._adding:
            _done(self.complete)

    def rest(self) -> None:
        """Make room for another batch: only requests to slow receivers are left of this one."""
        self.close()
        if self.took is None and self._opened_at is not None:
            self.took = asyncio.get_running_loop().time() - self._opened_at
        _done(self.rests)

    def end(self) -> None:
        """End the batch, even if deliveries are being leased for it."""
        self._take = None
        self.in_progress.clear()
        self.rest()
        _done(self.complete)

    def _note(self, rows: Sequence[PendingDelivery]) -> None:
        self._endpoints |= {row.delivery_id: row.endpoint_id for row in rows}
        self.in_progress.update(row.endpoint_id for row in rows)


class Batches:
    """The batches of one worker. `on_room` is called when one has ended and there is room. `most`
    is how many deliveries the next one takes: fewer while this worker is slow."""

    def __init__(
        self, client: Client, *, on_room: Callable[[], None], clock: Clock = utc_now
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self.most = MOST
        self._client = client
        self._on_room = on_room
        self._clock = clock
        self._known: dict[str, Batch] = {}

    @property
    def at_work(self) -> list[Batch]:
        """The batches that keep the worker busy."""
        return [one for one in self._known.values() if not one.rests.done()]

    @property
    def open(self) -> Batch | None:
        """The first batch that deliveries can be added to now."""
        return next((one for one in self._known.values() if one.is_open), None)

    @property
    def next_is_due(self) -> bool:
        """Whether the batch that takes deliveries closes soon, and none is there to follow it."""
        usable = [one for one in self._known.values() if one.is_open or one.is_opening]
        return len(usable) == 1 and usable[0].is_open and usable[0].closes_soon

    def in_progress(self, endpoint_id: str) -> int:
        """How many deliveries of this endpoint are in batches."""
        return sum(one.in_progress[endpoint_id] for one in self._known.values())

    def get(self, batch_id: str) -> Batch | None:
        """The batch with this id, or None if another worker started it."""
        return self._known.get(batch_id)

    def begin(
        self,
        batch_id: str,
        rows: Sequence[PendingDelivery],
        *,
        leased_until: datetime,
        on_start: OnStart,
    ) -> None:
        """Start a batch of these rows, which belong to it until `leased_until`; without rows it
        waits for deliveries to be added. `on_start` is called after each try to start it, with None
        or with Temporal's error."""
        self._known[batch_id] = batch = Batch(batch_id, rows, most=self.most)
        ids = [row.delivery_id for row in rows]
        task = asyncio.create_task(self._run(batch_id, ids, leased_until, on_start), name=batch_id)
        self.running.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self.running.discard(task)
            del self._known[batch_id]
            batch.end()
            self._learn(batch.took)
            self._on_room()  # its endpoints may have deliveries that waited for this

        task.add_done_callback(over)

    def close(self) -> None:
        """Close every batch, so that each ends soon."""
        for one in self._known.values():
            one.close()

    def _learn(self, took: float | None) -> None:
        """Halve the size after a batch that took too long; double it when twice as many would not
        have."""
        if took is None:
            return
        if took > _TOO_LONG_SECONDS:
            self.most = max(_FEWEST, self.most // 2)
        elif took < _TOO_LONG_SECONDS / 2:
            self.most = min(MOST, 2 * self.most)

    async def _run(
        self, batch_id: str, ids: Sequence[str], leased_until: datetime, on_start: OnStart
    ) -> None:
        while True:
            try:
                handle = await start_batch(self._client, batch_id, ids)
            except RPCError as error:
                # It may have been started nevertheless, so it keeps its rows. Start it again under
                # the same id, as long as the lease leaves it the time for its attempts.
                instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="failed")
                on_start(error)
                if self._clock() + _PAUSE + LOCAL_STEP > leased_until:
                    return
                await asyncio.sleep(_PAUSE.total_seconds())
            else:
                break
        instruments.RELAY_STARTS.add(len(ids), carrier="batch", result="started")
        on_start(None)
        with contextlib.suppress(TimeoutError, RPCError, WorkflowFailureError):
            async with asyncio.timeout(_LONGEST_SECONDS):
                await handle.result()


def closed_batch(batch_id: str) -> Batch:
    """A batch that another worker started. Nothing can be added to it here."""
    batch = Batch(batch_id)
    batch.close()
    return batch


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
