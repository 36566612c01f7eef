"""Endpoints that were slow or failing lately, as far as this worker knows: their first attempts do
not go into batches."""

from __future__ import annotations

import time
from collections import OrderedDict

_FORGET_SECONDS = 30.0
_MOST = 10_000


class Troubled:
    """One per worker process."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()

    def note(self, endpoint_id: str) -> None:
        """An attempt at this endpoint failed, or took long."""
        self._until.pop(endpoint_id, None)
        self._until[endpoint_id] = time.monotonic() + _FORGET_SECONDS
        while len(self._until) > _MOST:
            self._until.popitem(last=False)

    def __contains__(self, endpoint_id: str) -> bool:
        return time.monotonic() < self._until.get(endpoint_id, 0.0)
