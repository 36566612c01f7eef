"""Turns in a batch: how many requests each endpoint has at once, in order of arrival. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict, deque


class Turns:
    """Gives turns to deliveries, at most `most` of each endpoint at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queues: defaultdict[str, deque[str]] = defaultdict(deque)
        self._endpoints: dict[str, str] = {}  # of the deliveries that wait or have a turn
        self._taken: Counter[str] = Counter()
        self._new: dict[str, None] = {}

    @property
    def are_due(self) -> bool:
        """Whether it is the turn of deliveries that `take` has not returned."""
        return bool(self._new)

    def join(self, delivery_id: str, endpoint_id: str) -> None:
        """Let a delivery wait for its turn."""
        self._endpoints[delivery_id] = endpoint_id
        self._queues[endpoint_id].append(delivery_id)
        self._give(endpoint_id)

    def take(self) -> list[str]:
        """Return the deliveries whose turn it is since the last call."""
        taken, self._new = list(self._new), {}
        return taken

    def end(self, delivery_id: str) -> None:
        """End the turn of a delivery, or its wait; without either, nothing changes."""
        if (endpoint_id := self._endpoints.pop(delivery_id, None)) is None:
            return
        queue = self._queues[endpoint_id]
        if delivery_id in queue:
            queue.remove(delivery_id)
            return
        self._new.pop(delivery_id, None)
        self._taken[endpoint_id] -= 1
        self._give(endpoint_id)

    def of(self, endpoint_id: str) -> int:
        """How many deliveries of this endpoint have a turn."""
        return self._taken[endpoint_id]

    def _give(self, endpoint_id: str) -> None:
        queue = self._queues[endpoint_id]
        while queue and self._taken[endpoint_id] < self._most:
            self._taken[endpoint_id] += 1
            self._new[queue.popleft()] = None
