"""The geometry of the charts that templates draw as SVG. Pure: numbers in, coordinates out.

A chart is stretched to the width of its place, and its labels are beside it as text of the page, so
that they have the same size at every width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WIDTH: Final = 1_000
HEIGHT: Final = 100
"""The size of every chart in its own units."""
_MANTISSAS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS = 5  # divides 1, 2, 2.5, 5 and 10 into round parts
_MIN_COUNT = 5
_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_LONG_SCALES: Final = (
    *(_MINUTE * count for count in (2.5, 5, 10, 25, 50, 150)),
    *(_HOUR * count for count in (5, 10, 30, 60)),
    *(_DAY * count for count in (5, 10, 25, 50)),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A level line with its label, at a height in the chart's own units; or a label under the
    chart, at a share of its width in percent."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Rect:
    """One series' part of a bar, and its value. `link` is the address that this part alone
    opens."""

    series: str
    value: float
    x: float
    y: float
    width: float
    height: float
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its parts, from the bottom up, its tooltip, and the address that it opens. An empty
    one is no stop of the keyboard."""

    x: float
    width: float
    parts: tuple[Rect, ...]
    tooltip: str
    link: str | None = None
    empty: bool = False

    @property
    def is_group(self) -> bool:
        """Whether it is more than one link."""
        return self.link is None or any(part.link for part in self.parts)


@dataclass(frozen=True, slots=True)
class Segment:
    """An unbroken part of a line, `x,y x,y …`. A single point is a line without a length, which is
    drawn as a dot."""

    points: str
    is_dot: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line, broken where a value is missing."""

    series: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The geometry of one chart. `is_low`: it is above a list, and has less height."""

    width: int = WIDTH
    height: int = HEIGHT
    is_low: bool = False
    levels: tuple[Mark, ...] = ()
    labels: tuple[Mark, ...] = ()
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()


def stacked_bars(
    stacks: Sequence[Sequence[tuple[str, float]]],
    *,
    tooltips: Sequence[str],
    labels: Sequence[str],
    links: Sequence[str] = (),
    part_links: Mapping[str, Sequence[str]] = MappingProxyType({}),
    is_low: bool = False,
) -> Chart:
    """Draw a bar per stack of (series, value) pairs, bottom first. Empty labels are dropped.
    `links` has the address that each bar opens; `part_links`, those of one series' parts."""
    highest = max((sum(value for _, value in stack) for stack in stacks), default=0)
    top = ceiling(max(highest, _MIN_COUNT))  # no level at a fifth of a delivery
    slot = WIDTH / max(1, len(stacks))
    width = slot * 0.78
    scale = HEIGHT / top
    bars = []
    for index, (stack, tooltip) in enumerate(zip(stacks, tooltips, strict=True)):
        x = _round(index * slot + (slot - width) / 2)
        parts, base = [], float(HEIGHT)
        for series, value in stack:
            if value:
                base -= value * scale
                link = part_links[series][index] if series in part_links else None
                size = (_round(base), _round(width), _round(value * scale))
                parts.append(Rect(series, value, x, *size, link))
        bars.append(_bar(index, slot, tooltip, links, parts=tuple(parts), empty=not parts))
    return Chart(
        is_low=is_low,
        levels=_levels(top, _short, ticks=1 if is_low else _TICKS),
        labels=_labels(labels),
        bars=tuple(bars),
    )


def lines(
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    tooltips: Sequence[str],
    labels: Sequence[str],
    unit: Callable[[float], str],
    top_of: Callable[[float], float] | None = None,
    links: Sequence[str] = (),
) -> Chart:
    """Draw a line per series over the same steps. A step without a value has no bar. `unit`
    formats a value of the scale, whose top `top_of` returns for the highest value; `links` has the
    address that each step opens."""
    values = [value for _, each in series for value in each if value is not None]
    top = (top_of or ceiling)(max(values, default=0))
    slot = WIDTH / max(1, len(tooltips))
    drawn = tuple(Line(name, _segments(each, top=top, slot=slot)) for name, each in series)
    bars = tuple(
        _bar(index, slot, tooltip, links, empty=False)
        for index, tooltip in enumerate(tooltips)
        if any(each[index] is not None for _, each in series)
    )
    return Chart(levels=_levels(top, unit), labels=_labels(labels), lines=drawn, bars=bars)


def _bar(
    index: int,
    slot: float,
    tooltip: str,
    links: Sequence[str],
    *,
    parts: tuple[Rect, ...] = (),
    empty: bool,
) -> Bar:
    link = links[index] if links else None
    return Bar(_round(index * slot), _round(slot), parts, tooltip, link, empty)


def ceiling(value: float) -> float:
    """Return the top of a scale that shows `value`: 1, 2, 2.5 or 5 times a power of ten.

    ceiling(7) is 10, ceiling(130) is 200.
    """
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(m * power for m in _MANTISSAS if m * power >= value * 0.999999)


def seconds_ceiling(value: float) -> float:
    """Return the top of a scale that shows `value` seconds, whose levels are round times: from two
    minutes on, it is 5, 10, 25 … minutes, which are five times 1, 2, 5 … minutes."""
    if value <= 50:
        return ceiling(value)
    return next((each for each in _LONG_SCALES if each >= value), ceiling(value))


def _segments(values: Sequence[float | None], *, top: float, slot: float) -> tuple[Segment, ...]:
    """Return the unbroken parts of a line."""
    parts: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            parts.append([])
            continue
        y = HEIGHT * (1 - min(1.0, value / top))
        parts[-1].append(f"{(index + 0.5) * slot:.1f},{y:.1f}")
    return tuple(
        Segment(" ".join(points if len(points) > 1 else points * 2), is_dot=len(points) == 1)
        for points in parts
        if points
    )


def _levels(top: float, write: Callable[[float], str], *, ticks: int = _TICKS) -> tuple[Mark, ...]:
    steps = range(ticks + 1)
    return tuple(Mark(HEIGHT - HEIGHT * step // ticks, write(top * step / ticks)) for step in steps)


def _labels(labels: Sequence[str]) -> tuple[Mark, ...]:
    return tuple(
        Mark(round(100 * (index + 0.5) / len(labels), 1), text)
        for index, text in enumerate(labels)
        if text
    )


def _round(value: float) -> float:
    """Round to a tenth, which is less than a pixel; a whole number has no decimals to send."""
    rounded = round(value, 1)
    return int(rounded) if rounded.is_integer() else rounded


def _short(value: float) -> str:
    """Format a count in at most five characters: `0.25`, `800`, `1.2k`, `3M`."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"
