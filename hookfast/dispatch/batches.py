"""The batches of this worker: its relay fills them, and its activity attempts them.

A batch starts with the waiting deliveries. It stays open while it attempts them, and the relay adds
new ones, which need no workflow and do not wait for one. If the worker dies, a relay takes the
added deliveries again as soon as the time in their rows ends. `hookfast.deliveries.batch_life` says
when a batch takes deliveries, and what happens to them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.batch_life import BatchLife, Joining, Step
from hookfast.deliveries.time_budget import LOCAL_STEP
from hookfast.dispatch.pace import Pace
from hookfast.dispatch.start import start_batch
from hookfast.storage.deliveries.outgoing import Outgoing
from hookfast.telemetry import instruments

OnStart = Callable[[RPCError | None], None]

_PAUSE = timedelta(seconds=1)  # between two tries to start a batch
_LONGEST_SECONDS = 10.0  # a batch that takes longer has lost its worker


class Batch:
    """A batch of this worker. `read` has its deliveries as they were read, until it is their turn;
    `is_slow` says whether an endpoint has slow requests; `on_change` is called when the batch may
    have room, or leave room for another."""

    def __init__(
        self,
        batch_id: str,
        deliveries: Sequence[Outgoing] = (),
        *,
        life: BatchLife,
        is_slow: Callable[[str], bool] = lambda endpoint_id: False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.id = batch_id
        self.life = life
        self._is_slow = is_slow
        self.read = {one.delivery_id: one for one in deliveries}
        self._on_change = on_change
        self._woken = asyncio.Event()

    def open(self) -> None:
        """Let its attempts begin, and deliveries be added."""
        self.life.opened(_now())
        self._changed()

    @contextmanager
    def leasing(self) -> Iterator[None]:
        """Keep the batch from ending while deliveries are being leased for it."""
        self.life.leasing()
        try:
            yield
        finally:
            self.life.leased()
            self.wake()

    def add(self, deliveries: Sequence[Outgoing], *, leased_until: float) -> bool:
        """Attempt these deliveries, which were leased for this batch. Return False if the batch has
        ended."""
        joining = _joining(deliveries, leased_until, self._is_slow)
        if not self.life.joined(joining, _now()):
            return False
        self.read |= {one.delivery_id: one for one in deliveries}
        self.wake()
        return True

    def next_step(self) -> Step:
        """Return what to do now."""
        phase = self.life.phase
        step = self.life.next_step(_now())
        if self.life.phase is not phase:
            self._changed()
        return step

    async def news(self, until: float) -> None:
        """Wait for something that changes the next step, or until this time."""
        self._woken.clear()
        if not self.life.has_news:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._woken.wait()

    def wake(self) -> None:
        """Take the next step now, if something has changed it."""
        if self.life.has_news:
            self._woken.set()

    def close(self) -> None:
        """Add no more deliveries, except those that are being leased for it already."""
        self.life.stopped()
        self.wake()

    def end(self) -> None:
        """End the batch, even if deliveries are being leased for it."""
        self.life.ended(_now())
        self.read.clear()
        self._changed()

    def _changed(self) -> None:
        self._woken.set()
        self._on_change()


class Batches:
    """The batches of one worker. `on_change` is called when one takes deliveries, has closed, or
    leaves room for another; `on_end` when one has ended."""

    def __init__(
        self,
        client: Client,
        *,
        pace: Pace,
        on_change: Callable[[], None],
        on_end: Callable[[], None],
        clock: Clock = utc_now,
    ) -> None:
        self.running: set[asyncio.Task[None]] = set()
        self._client = client
        self._pace = pace
        self._on_change = on_change
        self._on_end = on_end
        self._clock = clock
        self._known: dict[str, Batch] = {}

    @property
    def busy(self) -> int:
        """How many batches keep the worker busy."""
        return sum(one.life.is_busy for one in self._known.values())

    @property
    def open(self) -> Batch | None:
        """The first batch that deliveries can be added to now."""
        return next((one for one in self._known.values() if one.life.is_open), None)

    @property
    def is_starting(self) -> bool:
        """Whether a batch takes deliveries as soon as its attempts begin."""
        return any(one.life.is_starting for one in self._known.values())

    @property
    def next_is_due(self) -> bool:
        """Whether the batch that takes deliveries closes soon, and none is there to follow it."""
        batch = self.open
        return batch is not None and batch.life.closes_soon(_now()) and not self._has_another(batch)

    def in_progress(self, endpoint_id: str) -> int:
        """How many deliveries of this endpoint are in batches."""
        return sum(one.life.in_progress[endpoint_id] for one in self._known.values())

    def get(self, batch_id: str) -> Batch | None:
        """The batch with this id, or None if another worker started it."""
        return self._known.get(batch_id)

    def begin(
        self,
        batch_id: str,
        deliveries: Sequence[Outgoing],
        *,
        leased_until: datetime,
        on_start: OnStart,
    ) -> None:
        """Start a batch of these deliveries, which belong to it until `leased_until`; without any,
        it waits for deliveries to be added. `on_start` is called after each try to start it, with
        None or with Temporal's error."""
        until = _now() + (leased_until - self._clock()).total_seconds()
        is_slow = self._pace.slow_requests.has
        life = BatchLife(_joining(deliveries, until, is_slow), most=self._pace.batch_size)
        batch = Batch(batch_id, deliveries, life=life, is_slow=is_slow, on_change=self._on_change)
        self._known[batch_id] = batch
        ids = [one.delivery_id for one in deliveries]
        task = asyncio.create_task(self._run(batch_id, ids, leased_until, on_start), name=batch_id)
        self.running.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self.running.discard(task)
            del self._known[batch_id]
            batch.close()  # if its attempts go on without a workflow, they end soon
            if life.took is not None:
                self._pace.batch_rested(life.took)
            self._on_change()
            self._on_end()

        task.add_done_callback(over)

    def close(self) -> None:
        """Close every batch, so that each ends soon."""
        for one in self._known.values():
            one.close()

    def _has_another(self, batch: Batch) -> bool:
        others = (one.life for one in self._known.values() if one is not batch)
        return any(one.is_open or one.is_starting for one in others)

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


def batch_of_another(
    batch_id: str, delivery_ids: Sequence[str], deliveries: Sequence[Outgoing]
) -> Batch:
    """Return a batch that another worker started, of those of its deliveries that have a row and of
    those that have none. Nothing can be added to it here."""
    endpoints = {one.delivery_id: one.endpoint.endpoint_id for one in deliveries}
    first = [Joining(one, endpoints.get(one, "")) for one in delivery_ids]
    return Batch(batch_id, deliveries, life=BatchLife(first, closed=True))


def _joining(
    deliveries: Iterable[Outgoing], leased_until: float, is_slow: Callable[[str], bool]
) -> list[Joining]:
    endpoints = ((one.delivery_id, one.endpoint.endpoint_id) for one in deliveries)
    return [Joining(one, endpoint, leased_until, is_slow(endpoint)) for one, endpoint in endpoints]


def _now() -> float:
    return asyncio.get_running_loop().time()
