"""Readings of counters, and the figures per delivery that follow from two of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Measure(StrEnum):
    """A kind of figure, with its unit."""

    COMMITS = "commits"
    WAL = "WAL, bytes"
    DISK = "disk, bytes"
    CPU = "CPU, seconds"
    REQUESTS = "requests"
    RUNS = "workflow runs"
    EVENTS = "history events"
    HISTORY = "history, bytes"


class Key(NamedTuple):
    """What a figure measures: of which part, and for DISK in which of its tables."""

    part: str
    measure: Measure
    table: str = ""


Reading = Mapping[Key, float]
"""The values of counters that only rise, and of sizes."""

_AT_REST = frozenset({Measure.COMMITS, Measure.WAL, Measure.CPU, Measure.REQUESTS})
"""Rise at rest, too. Sizes do not, but for a few pages."""


@dataclass(frozen=True, slots=True)
class Span:
    """How much counters rose during these seconds."""

    risen: Reading
    seconds: float

    def per_second(self) -> Reading:
        """Return the rates of what rises at rest."""
        return {
            key: value / self.seconds
            for key, value in self.risen.items()
            if key.measure in _AT_REST
        }

    def per_delivery(self, count: int, at_rest: Reading) -> Reading:
        """Return each figure for one of `count` deliveries, less what rises at rest, never below
        zero."""
        return {
            key: max(0.0, value - at_rest.get(key, 0.0) * self.seconds) / count
            for key, value in self.risen.items()
        }


def rise(before: Reading, after: Reading) -> Reading:
    """Return how much each value rose. A table that appears in between counts from zero."""
    return {key: value - before.get(key, 0.0) for key, value in after.items()}


def each_retry(with_retries: Reading, at_once: Reading, retries: int) -> Reading:
    """Return what one retry adds, from deliveries with so many of them and with none."""
    return {
        key: max(0.0, value - at_once.get(key, 0.0)) / retries
        for key, value in with_retries.items()
    }


def total(figures: Reading, measure: Measure, *parts: str) -> float | None:
    """Return the sum of a measure over these parts, or over all; None if it was not measured."""
    found = [
        value
        for key, value in figures.items()
        if key.measure is measure and (not parts or key.part in parts)
    ]
    return sum(found) if found else None
