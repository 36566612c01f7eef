"""The picture of a run: deliveries per second by the number of worker processes, one area for each
mode, beside what as many times the first would be."""

from __future__ import annotations

from collections.abc import Sequence

from bench.scaling.figures import Point
from bench.scaling.svg import Area, document, scale

_HEIGHT = 366
_TOP, _BOTTOM = 102, 56
_LEFT, _GAP, _AREA = 56, 84, 286
_RIGHT = 24


def scaling_plot(points: Sequence[Point]) -> str:
    """Return an SVG document of the points in which every part had its usual share."""
    modes = list(dict.fromkeys(point.mode for point in points))
    parts, told = [], []
    for number, mode in enumerate(modes):
        of_mode = sorted(
            (point for point in points if point.mode == mode and point.squeezed is None),
            key=lambda point: point.workers,
        )
        left = _LEFT + number * (_AREA + _GAP)
        parts += _curve(mode, of_mode, left)
        told.append(f"{mode}: {_in_words(of_mode)}")
    width = _LEFT + len(modes) * (_AREA + _GAP) - _GAP + _RIGHT
    title = "Deliveries per second by worker processes"
    return document(
        [
            f'<text class="title" x="{_LEFT}" y="26">{title}</text>',
            *_legend(),
            *parts,
        ],
        width=width,
        height=_HEIGHT,
        title=title,
        description=". ".join(told) + ".",
    )


def _in_words(points: Sequence[Point]) -> str:
    return ", ".join(
        f"{point.rate:.0f} a second with {point.workers} "
        f"{'worker' if point.workers == 1 else 'workers'}"
        for point in points
    )


def _legend() -> list[str]:
    x, y = _LEFT, 50
    return [
        f'<line class="line" x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}"/>',
        f'<text x="{x + 28}" y="{y}">measured</text>',
        f'<line class="ramp" stroke-dasharray="4 4" x1="{x + 104}" x2="{x + 126}" y1="{y - 4}" '
        f'y2="{y - 4}"/>',
        f'<text x="{x + 132}" y="{y}">as many times one worker</text>',
    ]


def _curve(mode: str, points: Sequence[Point], left: float) -> list[str]:
    first, last = points[0], points[-1]
    most = last.workers * first.rate / first.workers
    size = (_AREA, _HEIGHT - _TOP - _BOTTOM)
    area = Area(left, _TOP, *size, *scale(max(most, *(point.rate for point in points))))

    def x(workers: int) -> float:
        return area.left + workers * area.width / (last.workers + 0.5)

    ideal = f"{area.left:.1f},{area.bottom:.1f} {x(last.workers):.1f},{area.y(most):.1f}"
    middle = area.left + area.width / 2
    return [
        f'<text x="{area.left:g}" y="{_TOP - 16}">mode {mode}</text>',
        *area.grid(),
        f'<polyline class="ramp" stroke-dasharray="4 4" points="{ideal}"/>',
        '<polyline class="line" points="'
        + " ".join(f"{x(point.workers):.1f},{area.y(point.rate):.1f}" for point in points)
        + '"/>',
        *(
            f'<circle class="bar" cx="{x(point.workers):.1f}" cy="{area.y(reading.rate):.1f}" '
            'r="3.5"/>'
            for point in points
            for reading in point.readings
        ),
        *(
            f'<text x="{x(point.workers) + 8:.1f}" y="{area.y(point.rate) + 18:.1f}">'
            f"{point.rate:.0f}</text>"
            for point in points
        ),
        *(
            f'<text x="{x(point.workers):.1f}" y="{area.bottom + 18:g}" '
            f'text-anchor="middle">{point.workers}</text>'
            for point in points
        ),
        f'<text x="{middle:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">worker processes</text>',
    ]
