"""Decides when `up` runs one worker more, or one less, from how busy its processes are.

Python uses one core per process, so that with batch emits a worker is full while others idle: 1.5
of 2 cores were busy. A second worker delivered a third more there, and an eighth less with single
emits (SQLite, two quiet cores): two claim smaller groups, commit more often, and take the core that
the API needs. So it runs only while a core would idle otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_BUSY: Final = 0.7
"""Cores that a worker takes when it is full. With batch emits it takes 0.89 on SQLite, and 0.77 on
PostgreSQL, where it waits for commits."""
_SPARE: Final = 0.4
"""Cores that have to idle before a worker starts: 0.5 and 0.45 do with batch emits, 0.35 and 0.18
with single ones, of which the API takes nearly as much as the worker."""
_BUSY_SAMPLES: Final = 3
"""In a row, before a worker starts: that takes 1.3 s of CPU."""
_APIS_SHARE: Final = 0.4
"""Cores that the APIs take, as a share of the workers', from which events come one by one: 0.8 with
one worker and 0.6 with two, and 0.2 with batch emits. A second worker does harm then on two cores:
with 227 events a second (SQLite) the p50 of a 202 went from 5 to 11 ms."""
_ROOM: Final = 1.0
"""Cores that have to idle beside a further worker for such events. Twice as many before it starts:
it takes up to one itself."""
_APIS_SAMPLES: Final = 5
"""In a row. Batches that are emitted faster than they are delivered keep the API busy, too: for two
seconds with 9,000 events."""
_CALM: Final = 0.5
"""Cores for each remaining worker that suffice after a stop. Less than `_BUSY`, or workers would
start and stop all the time."""
_CALM_SAMPLES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The CPU of the last second, in cores: of each worker, of all APIs, and what idled."""

    workers: tuple[float, ...]
    apis: float
    idle: float


class Autoscaler:
    """Counts how often in a row a reason for a step was there. One sample a second."""

    def __init__(self, *, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self._busy = self._apis = self._calm = 0

    def next(self, load: Load) -> Literal["start", "stop"] | None:
        """Return the step to take after this sample, if any."""
        count = len(load.workers)
        singles = load.apis >= _APIS_SHARE * sum(load.workers)
        crowded = singles and load.idle < _ROOM
        needed = 2 * _ROOM if singles else _SPARE
        full = min(load.workers) >= _BUSY and load.idle >= needed
        calm = sum(load.workers) <= _CALM * (count - 1)
        self._busy = self._busy + 1 if full and count < self._most else 0
        self._apis = self._apis + 1 if crowded and count > self._least else 0
        self._calm = self._calm + 1 if calm and count > self._least else 0
        if self._busy >= _BUSY_SAMPLES:
            self._busy = 0
            return "start"
        if self._apis >= _APIS_SAMPLES or self._calm >= _CALM_SAMPLES:
            self._apis = self._calm = 0
            return "stop"
        return None
