"""The ways from a batch to its endpoints."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from activities.hold import Hold
from hookfast.deliveries.batch_messages import PER_ENDPOINT
from hookfast.storage.deliveries.outgoing import COUNTS_FOR, OutgoingLoader


class Lanes:
    """The ways to the endpoints of a batch, each for so many requests at once.

    What is known of the deliveries that wait for their turn is read anew all at once, before it
    counts no more: one by one, right before each request, that takes a seventh of a batch's CPU.
    """

    def __init__(self, loader: OutgoingLoader, batch_id: str) -> None:
        self._loader = loader
        self._batch_id = batch_id
        self._waiting: dict[str, None] = {}
        self._renewed_at = asyncio.get_running_loop().time()
        self._renewing = asyncio.Lock()
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(PER_ENDPOINT)
        )

    def add(self, delivery_ids: Iterable[str]) -> None:
        """These wait too, and were just read."""
        self._waiting |= dict.fromkeys(delivery_ids)

    async def _renew(self) -> None:
        """Read anew what is not fresh of those that wait."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if now - self._renewed_at > COUNTS_FOR / 2:
                await self._loader.renew(list(self._waiting), batch_id=self._batch_id)
                self._renewed_at = now

    @asynccontextmanager
    async def turn(self, hold: Hold) -> AsyncIterator[None]:
        """Have one of the places on the way to its endpoint, once one is free, until its request is
        over: another may begin while it is recorded."""
        place = self._places[hold.endpoint_id]
        await place.acquire()
        hold.on_answer = place.release
        try:
            await self._renew()
            self._waiting.pop(hold.delivery_id, None)
            yield
        finally:
            hold.answered()
