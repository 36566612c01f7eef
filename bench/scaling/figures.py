"""The figures of a run: plain values, for the table, the picture and `--json`.

Rates are deliveries per second, CPU is in cores: seconds of CPU per second.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORKER = "worker"
FULL = 0.93
"""A part that used this much of its share is taken for the limit: the rest is lost between the
periods in which it may run."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a part had and used: cores, and the share of the periods in which it was stopped because
    its quota was used up."""

    cores: float
    used: float
    throttled: float

    @property
    def full(self) -> float:
        """The used part of its share."""
        return self.used / self.cores


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement. `uses` by the part's name: each worker alone has a share, so theirs are
    `worker-1`, `worker-2`, …"""

    rate: float
    uses: Mapping[str, Use]


@dataclass(frozen=True, slots=True)
class Point:
    """The readings with so many worker processes. `squeezed` is the part that had less than
    usual, if any."""

    mode: str
    workers: int
    squeezed: str | None
    readings: Sequence[Reading]

    @property
    def rate(self) -> float:
        """The mean of the readings."""
        return statistics.fmean(reading.rate for reading in self.readings)

    @property
    def uses(self) -> dict[str, Use]:
        """The mean of the readings by kind of part. `worker` is one worker, the mean of all."""
        found: dict[str, list[Use]] = {}
        for reading in self.readings:
            for name, use in reading.uses.items():
                found.setdefault(name.rstrip("-0123456789"), []).append(use)
        return {name: _mean(uses) for name, uses in found.items()}

    @property
    def limit(self) -> str | None:
        """The part that limits the rate, which has used most of its share. None if no part has used
        it up."""
        name, use = max(self.uses.items(), key=lambda item: item[1].full)
        return name if use.full >= FULL else None

    def milliseconds(self, part: str) -> float:
        """Return the CPU of this part for each delivery."""
        processes = self.workers if part == WORKER else 1
        return self.uses[part].used * processes / self.rate * 1000


@dataclass(frozen=True, slots=True)
class NextLimit:
    """The part that limits the rate when there are more workers, and from how many."""

    part: str
    workers: float
    rate: float


def to_json(points: Sequence[Point]) -> list[Any]:
    """Return the points as plain values."""
    return [dataclasses.asdict(point) for point in points]


def from_json(content: list[Any]) -> list[Point]:
    """Return the points of `to_json`."""
    return [
        Point(
            mode=one["mode"],
            workers=one["workers"],
            squeezed=one["squeezed"],
            readings=[
                Reading(
                    reading["rate"], {name: Use(**use) for name, use in reading["uses"].items()}
                )
                for reading in one["readings"]
            ],
        )
        for one in content
    ]


def next_limit(point: Point) -> NextLimit:
    """Return the limit behind the workers: the part whose share is used up first if each further
    worker adds as much load as these did."""
    others = {name: use for name, use in point.uses.items() if name != WORKER}
    part = max(others, key=lambda name: others[name].full)
    factor = FULL / others[part].full
    return NextLimit(part, point.workers * factor, point.rate * factor)


def _mean(uses: Sequence[Use]) -> Use:
    return Use(
        cores=statistics.fmean(use.cores for use in uses),
        used=statistics.fmean(use.used for use in uses),
        throttled=statistics.fmean(use.throttled for use in uses),
    )
