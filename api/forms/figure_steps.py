"""The steps of a time whose figures are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from hookfast.errors import InvalidInput
from hookfast.storage.counting import reading

Step = Literal[
    "1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d"
]
"""The lengths that a step may have: divisors of a day."""
By = Literal["result", "status", "type"]

USUAL_STEPS: Final = 30
"""Without a choice, a step is the shortest of which there are not more."""
MAX_STEPS: Final = 1_500
MAX_STEPS_BY_TYPE: Final = 250
"""Fewer, because each of these steps has many event types."""

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_HOUR, _DAY = _UNITS["h"], _UNITS["d"]
_LENGTHS: Final[Mapping[Step, timedelta]] = {
    step: int(step[:-1]) * _UNITS[step[-1]] for step in get_args(Step)
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_KEPT_BY: Final = {
    _HOUR: (reading.MINUTES_KEPT, "two days", "by the hour"),
    _DAY: (reading.HOURS_KEPT, "40 days", "by the day of UTC"),
}


def choose_edges(
    since: datetime | None,
    until: datetime | None,
    step: Step | None,
    *,
    by: By | None,
    now: datetime,
) -> Sequence[datetime]:
    """Return the times at which the steps begin and end: round times of UTC, the first at or before
    `since` and the last at or after `until`. Without `since`, it is 24 hours before `until`;
    without `step`, there are about 30. Raises InvalidInput."""
    until = now if until is None else min(until, now)
    if since is None:
        since = max(until, _EARLIEST + _DAY) - _DAY
    if since >= until:
        raise InvalidInput.at("since", "must be before `until`, and in the past")
    if step is not None:
        return _edges(since, until, step, by=by, now=now)
    for each, length in _LENGTHS.items():
        if length * USUAL_STEPS >= until - since:
            with suppress(InvalidInput):  # such short steps are not kept
                return _edges(since, until, each, by=by, now=now)
    return _edges(since, until, "1d", by=by, now=now)


def _edges(
    since: datetime, until: datetime, step: Step, *, by: By | None, now: datetime
) -> list[datetime]:
    length = _LENGTHS[step]
    if by == "type" and length < _HOUR:
        raise InvalidInput.at("step", "figures by event type are of whole hours: choose 1h or more")
    first, last = (since - _EPOCH) // length, -((_EPOCH - until) // length)
    limit = MAX_STEPS_BY_TYPE if by == "type" else MAX_STEPS
    if last - first > limit:
        where, choice = "step", "a longer step or a shorter time"
        if length == _DAY:  # the longest
            where, choice = "since", "a shorter time"
        raise InvalidInput.at(
            where,
            f"this is {last - first:,} steps of {step}; choose {choice}, for at most {limit:,}",
        )
    edges = [_EPOCH + number * length for number in range(first, last + 1)]
    for edge in edges:
        if not reading.is_exact(edge, now=now):
            kept, age, how = _KEPT_BY[reading.precision(edge, now=now)]
            earliest = _EPOCH + ((now - kept - _EPOCH) // length + 1) * length
            raise InvalidInput.at(
                "step",
                f"figures older than {age} are kept {how}: choose a longer step, or `since` not "
                f"before {earliest:%Y-%m-%dT%H:%M:%SZ}",
            )
    return edges
