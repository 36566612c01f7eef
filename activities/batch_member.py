"""A delivery in a batch, and the slots that limit a batch's requests to one endpoint."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from activities.heartbeat import TimeLeft
from hookfast.deliveries.batch_messages import PER_ENDPOINT, SLOW
from hookfast.deliveries.life import Life
from hookfast.storage.deliveries.outgoing import FRESH_SECONDS, OutgoingLoader
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint


class BatchMember:
    """A delivery that belongs to a batch until its lease ends.

    `endpoint_id` is its endpoint as known before its row is read. `unanswered_since` is the event
    loop's time at which its request began, while that has no answer. `on_answer` is called once,
    when the request has ended.
    """

    in_batch: Final = True

    def __init__(self, delivery_id: str, endpoint_id: str, left: TimeLeft) -> None:
        self.now = left.now
        self.delivery_id = delivery_id
        self.endpoint_id = endpoint_id
        self._left: TimeLeft | None = left
        self.endpoint: CachedEndpoint | None = None
        self.begun = False
        self.on_answer: Callable[[], None] | None = None
        self.unanswered_since: float | None = None
        self._untils: set[datetime] = set()
        self._ends_at = 0.0

    def take(self, endpoint: CachedEndpoint) -> None:
        """Set the endpoint to send it to."""
        self.endpoint = endpoint

    def extend(self, until: datetime, *, now: datetime) -> None:
        """Set the end of its lease, as its row says now or is about to say."""
        self._untils.add(until)
        self._ends_at = asyncio.get_running_loop().time() + (until - now).total_seconds()

    def leave(self, until: datetime, *, now: datetime) -> None:
        """Let its request continue without the batch, until the time that its row will say."""
        self.extend(until, now=now)
        self._left = None

    def begin(self) -> None:
        """Note that its request begins."""
        self.begun = True
        self.unanswered_since = asyncio.get_running_loop().time()

    def extend_deadline(self, late: float) -> None:
        """Ignore so many seconds, in which this worker was too busy to see an answer."""
        if self.unanswered_since is not None:
            self.unanswered_since += max(0.0, late)

    def answered(self) -> None:
        """Note that its request has ended or will not be made."""
        self.unanswered_since = None
        if (call := self.on_answer) is not None:
            self.on_answer = None
            call()

    @property
    def slow(self) -> bool:
        """Whether its request has been unanswered for too long."""
        return self.waits_for(SLOW.total_seconds())

    def waits_for(self, seconds: float) -> bool:
        """Whether its request has been unanswered for this long."""
        since = self.unanswered_since
        return since is not None and asyncio.get_running_loop().time() - since > seconds

    def still_owns(self, life: Life) -> bool:
        """Whether the delivery still belongs to this batch."""
        return life.batch_until in self._untils

    def fits(self, seconds: float) -> bool:
        """Whether something that takes this long ends before another worker may attempt the
        delivery. Nothing fits once Temporal has given the batch up: another worker may be making
        the same attempts."""
        if self._left is not None and not self._left.fits(0):
            return False
        return asyncio.get_running_loop().time() + seconds <= self._ends_at


class EndpointSlots:
    """Limits how many requests of a batch go to one endpoint at once.

    The rows of the deliveries that wait for a slot are read again all at once, before they count as
    stale. Reading each right before its request took a seventh of a batch's CPU.
    """

    def __init__(self, loader: OutgoingLoader, batch_id: str) -> None:
        self._loader = loader
        self._batch_id = batch_id
        self._waiting: dict[str, None] = {}
        self._renewed_at = asyncio.get_running_loop().time()
        self._renewing = asyncio.Lock()
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(PER_ENDPOINT)
        )

    def add(self, delivery_ids: Iterable[str]) -> None:
        """Add deliveries that wait for a slot, and whose rows were just read."""
        self._waiting |= dict.fromkeys(delivery_ids)

    async def _renew(self) -> None:
        """Read the waiting deliveries' rows again if they were not read lately."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if now - self._renewed_at > FRESH_SECONDS / 2:
                await self._loader.renew(list(self._waiting), batch_id=self._batch_id)
                self._renewed_at = now

    @asynccontextmanager
    async def turn(self, member: BatchMember) -> AsyncIterator[None]:
        """Wait for a slot of its endpoint, and keep it until the request has ended: another request
        may begin while this one is recorded."""
        slot = self._slots[member.endpoint_id]
        await slot.acquire()
        member.on_answer = slot.release
        try:
            await self._renew()
            self._waiting.pop(member.delivery_id, None)
            yield
        finally:
            member.answered()
