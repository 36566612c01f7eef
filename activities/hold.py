"""A delivery in a batch's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from activities.time_left import TimeLeft
from hookfast.deliveries.batch_messages import SLOW
from hookfast.deliveries.life import Life
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint


class Hold:
    """A delivery in the batch's hands: until when, as its row may say, and in the event loop's
    time. `endpoint_id` is where it goes, as far as is known before it is looked at.
    `unanswered_since` is when its request began, while that has no answer, and `on_answer` is
    called once when it is over."""

    def __init__(self, delivery_id: str, endpoint_id: str, left: TimeLeft) -> None:
        self.delivery_id = delivery_id
        self.endpoint_id = endpoint_id
        self._left: TimeLeft | None = left
        self.target: CachedEndpoint | None = None
        self.begun = False
        self.on_answer: Callable[[], None] | None = None
        self.unanswered_since: float | None = None
        self._untils: set[datetime] = set()
        self._ends_at = 0.0

    def take(self, target: CachedEndpoint) -> None:
        """It is to go there."""
        self.target = target

    def extend(self, until: datetime, *, now: datetime) -> None:
        """Its row says so now, or will."""
        self._untils.add(until)
        self._ends_at = asyncio.get_running_loop().time() + (until - now).total_seconds()

    def leave(self, until: datetime, *, now: datetime) -> None:
        """Its request goes on without the batch, for as long as its row will say."""
        self.extend(until, now=now)
        self._left = None

    def begin(self) -> None:
        """Its request begins."""
        self.begun = True
        self.unanswered_since = asyncio.get_running_loop().time()

    def excuse(self, late: float) -> None:
        """This worker was busy for so many seconds, and could have missed the answer."""
        if self.unanswered_since is not None:
            self.unanswered_since += max(0.0, late)

    def answered(self) -> None:
        """Its request is over, or is not made."""
        self.unanswered_since = None
        if (call := self.on_answer) is not None:
            self.on_answer = None
            call()

    @property
    def slow(self) -> bool:
        """Whether its request has had no answer for too long."""
        return self.waits_for(SLOW.total_seconds())

    def waits_for(self, seconds: float) -> bool:
        """Whether its request has had no answer for so long."""
        since = self.unanswered_since
        return since is not None and asyncio.get_running_loop().time() - since > seconds

    def covers(self, life: Life) -> bool:
        """Whether the delivery is still in this batch's hands."""
        return life.batch_until in self._untils

    def fits(self, seconds: float) -> bool:
        """Whether what takes so long is done before somebody else may attempt it. Where Temporal
        has given the batch up, nothing fits: another worker does the same by now."""
        if self._left is not None and not self._left.fits(0):
            return False
        return asyncio.get_running_loop().time() + seconds <= self._ends_at
