"""An endpoint's attempts over time, by result, and how fast it answered.

An attempt counts when it was made, whenever its delivery was created: retries of older deliveries
are found too, as far back as `_LOOK_BACK`. Attempts have no index by endpoint and time, so they are
found by their deliveries. The cost is bounded: of each step, the newest deliveries are read by the
index of the endpoint, and count for the others of their step; `estimated` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from sqlalchemy import Select, Table, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import Result
from hookfast.ids import time_of
from hookfast.storage.figures import endpoint_stats, sample
from hookfast.storage.tables import Delivery

MAX_DELIVERIES = endpoint_stats.MAX_DELIVERIES
"""The most deliveries of a window that are read, the same number of each step."""
MAX_ATTEMPTS = endpoint_stats.MAX_ATTEMPTS
"""The most attempts that are read."""
_MAX_EARLIER = 250
"""The most deliveries that are read of each of the ranges before the window."""
_LOOK_BACK: Final = tuple(timedelta(hours=hours) for hours in (75, 24, 6, 1))
"""Where the ranges before the window begin. The longest preset retry plan lasts 73 hours."""

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c


class AttemptClass(StrEnum):
    """What an attempt resulted in, as coarse as a chart can show it."""

    SUCCESS = "success"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    TIMEOUT = "timeout"
    OTHER = "other"  # no answer for another reason, or a status such as a redirect

    @classmethod
    def of(cls, result: Result, status_code: int | None) -> AttemptClass:
        """Return the class of an attempt's result."""
        if result is Result.SUCCESS:
            return cls.SUCCESS
        if result is Result.TIMEOUT:
            return cls.TIMEOUT
        if result is Result.STATUS and status_code is not None:
            return {4: cls.CLIENT_ERROR, 5: cls.SERVER_ERROR}.get(status_code // 100, cls.OTHER)
        return cls.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStep:
    """The attempts that started from `start` to before `end`. `answered_ms` has the durations of
    those read that got a response, ascending."""

    start: datetime
    end: datetime
    counts: Mapping[AttemptClass, int]
    answered_ms: Sequence[float]

    @property
    def total(self) -> int:
        """The number of all attempts of the step."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAttempts:
    """The steps of a window. `estimated`: only some of the deliveries were read."""

    steps: Sequence[AttemptStep]
    estimated: bool


@dataclass(slots=True)
class _Sums:
    """The sums of one step."""

    counts: defaultdict[AttemptClass, float] = field(default_factory=lambda: defaultdict(float))
    answered_ms: list[float] = field(default_factory=list)


async def read(
    connection: AsyncConnection, endpoint_id: str, edges: Sequence[datetime], *, now: datetime
) -> EndpointAttempts:
    """Count an endpoint's attempts between each two of these times, the oldest first."""
    window = list(pairwise(edges))
    earlier = list(pairwise([edges[0] - each for each in _LOOK_BACK] + [edges[0]]))
    weights = await _deliveries_to_read(connection, endpoint_id, earlier, window, now=now)
    sums = [_Sums() for _ in window]
    for chunk in sample.id_chunks(sorted(weights)):
        statement = endpoint_stats.attempts_of(chunk, limit=MAX_ATTEMPTS)
        for attempt in await connection.execute(statement):
            index = bisect_right(edges, attempt.started_at) - 1
            if not 0 <= index < len(window):
                continue
            kind = AttemptClass.of(Result(attempt.result), attempt.status_code)
            sums[index].counts[kind] += weights[attempt.delivery_id]
            if attempt.status_code is not None:
                sums[index].answered_ms.append(attempt.duration_ms)
    steps = [
        AttemptStep(
            start=start,
            end=end,
            counts={kind: round(number) for kind, number in each.counts.items()},
            answered_ms=sorted(each.answered_ms),
        )
        for (start, end), each in zip(window, sums, strict=True)
    ]
    return EndpointAttempts(steps=steps, estimated=any(each > 1 for each in weights.values()))


async def _deliveries_to_read(
    connection: AsyncConnection,
    endpoint_id: str,
    earlier: Sequence[tuple[datetime, datetime]],
    window: Sequence[tuple[datetime, datetime]],
    *,
    now: datetime,
) -> dict[str, float]:
    """Return the deliveries whose attempts are read, each with the number of deliveries that it
    counts for."""
    most = [_MAX_EARLIER] * len(earlier) + [MAX_DELIVERIES // len(window)] * len(window)
    ranges = [*earlier, *window]
    found: list[list[tuple[str, int]]] = [[] for _ in ranges]
    read = [0] * len(ranges)
    oldest = [""] * len(ranges)
    for index, delivery_id, attempts, updated_at in await connection.execute(
        deliveries_statement(endpoint_id, ranges, most=most)
    ):
        read[index] += 1
        oldest[index] = min(oldest[index] or delivery_id, delivery_id)
        # a delivery is updated by each of its attempts
        if attempts and updated_at >= window[0][0]:
            found[index].append((delivery_id, attempts))
    weights: dict[str, float] = {}
    attempts_of: dict[str, int] = {}
    for (start, end), limit, count, first, rows in zip(
        ranges, most, read, oldest, found, strict=True
    ):
        weight = 1.0
        if count >= limit and (since := time_of(first)) is not None:
            until = min(end, now)
            weight = sample.scale(until - since, until - start)
        weights |= {delivery_id: weight for delivery_id, _ in rows}
        attempts_of |= dict(rows)
    return _within_limit(weights, attempts_of)


def _within_limit(weights: dict[str, float], attempts_of: Mapping[str, int]) -> dict[str, float]:
    """Return some of the deliveries if all have too many attempts to read. Their ids end in random
    digits: those with the lowest are a sample of all times."""
    kept: dict[str, float] = {}
    left = MAX_ATTEMPTS
    for delivery_id in sorted(weights, key=lambda each: each[-12:]):
        left -= attempts_of[delivery_id]
        if left < 0:
            break
        kept[delivery_id] = weights[delivery_id]
    factor = len(weights) / max(1, len(kept))
    return {delivery_id: weight * factor for delivery_id, weight in kept.items()}


def deliveries_statement(
    endpoint_id: str,
    ranges: Sequence[tuple[datetime, datetime]],
    *,
    most: Sequence[int],
) -> Select[int, str, int, datetime]:
    """Select the newest deliveries of each range: (index of the range, id, attempts, last change).
    The last two are compared afterwards, so that the limits bound what is read."""
    times = sample.times_of(ranges, "dlv")
    return _newest_deliveries(tuple(most)).params(times | {"endpoint_id": endpoint_id})


@lru_cache(maxsize=16)  # a megabyte each
def _newest_deliveries(most: tuple[int, ...]) -> Select[int, str, int, datetime]:
    return sample.of_each(
        select(_D.id, _D.attempts, _D.updated_at)
        .where(_D.endpoint_id == bindparam("endpoint_id"), *sample.created_in(index, _D.id))
        .order_by(_D.id.desc())
        .limit(limit)
        for index, limit in enumerate(most)
    )
