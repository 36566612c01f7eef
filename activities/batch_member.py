"""A delivery in a batch, as its attempt sees it, and the rows of the deliveries that wait for their
turn."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from activities.heartbeat import TimeLeft
from hookfast.deliveries.life import Life
from hookfast.dispatch.batches import Batch
from hookfast.storage.deliveries.outgoing import FRESH_SECONDS, Outgoing, OutgoingLoader


class BatchMember:
    """A delivery that belongs to a batch until its lease ends. It tells the batch how far its
    attempt is. For the attempt it is the lease (`activities.attempt`)."""

    in_batch: Final = True

    def __init__(self, delivery_id: str, batch: Batch, left: TimeLeft) -> None:
        self.now = left.now
        self.delivery_id = delivery_id
        self._batch = batch
        self._left = left
        self._until: datetime | None = None

    def leased(self, until: datetime, *, now: datetime) -> None:
        """Set the end of its lease, as its row says."""
        self._until = until
        ends_at = asyncio.get_running_loop().time() + (until - now).total_seconds()
        self._batch.life.leased_until(self.delivery_id, ends_at)

    def begin(self, seconds: float) -> bool:
        """Begin its request, if that and its record, which take so long, end within its lease.
        Otherwise it must not be made."""
        self._note_time_left()
        now = asyncio.get_running_loop().time()
        return self._batch.life.begin(self.delivery_id, now, needs=seconds)

    def answered(self) -> None:
        """Note that its request has ended."""
        self._batch.life.answered(self.delivery_id)
        self._batch.wake()

    def still_owns(self, life: Life) -> bool:
        """Whether the delivery still belongs to this batch."""
        return life.batch_until == self._until

    def fits(self, seconds: float) -> bool:
        """Whether something that takes this long ends before another worker may attempt the
        delivery. Nothing fits once Temporal has given the batch up: another worker may be making
        the same attempts."""
        self._note_time_left()
        now = asyncio.get_running_loop().time()
        return self._batch.life.fits(self.delivery_id, now, seconds)

    def _note_time_left(self) -> None:
        """Tell the batch if its time is up: this process may have been frozen."""
        if not self._left.fits(0):
            self._batch.life.given_up()


class BatchRows:
    """The deliveries of a batch as they were read, until it is their turn.

    Those that wait are read again all at once, before they count as out of date. Reading each right
    before its request took a seventh of a batch's CPU.
    """

    def __init__(self, loader: OutgoingLoader, batch: Batch) -> None:
        self._loader = loader
        self._read = batch.read
        self._reading = asyncio.Lock()

    async def take(self, delivery_id: str) -> Outgoing:
        """Return what the attempt of this delivery needs. Raises NotFound, and SQLAlchemy's
        errors."""
        if self._is_old(delivery_id):
            async with self._reading:
                if self._is_old(delivery_id):
                    fresh = await self._loader.refresh_many(self._read.values())
                    self._read.update((key, one) for key, one in fresh.items() if key in self._read)
        known = self._read.pop(delivery_id, None)
        return await self._loader.load(delivery_id) if known is None else known

    def _is_old(self, delivery_id: str) -> bool:
        known = self._read.get(delivery_id)
        if known is None:
            return False
        return asyncio.get_running_loop().time() - known.read_at > FRESH_SECONDS / 2
