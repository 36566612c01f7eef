"""The plot of a drain: arrivals per second as bars, the ramp as a step line. SVG, readable on light
and on dark pages, with no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 56, 52
_STYLE = """
  .page { fill: #ffffff } text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 } .bar { fill: #4c8fd6 }
  .ramp { stroke: #c2410c; stroke-width: 2; fill: none } .rate { fill: #c2410c }
  .grid { stroke: #d0d7de } .axis { stroke: #57606a }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .bar { fill: #4f86c6 }
    .ramp { stroke: #fb923c } .rate { fill: #fb923c }
    .grid { stroke: #30363d } .axis { stroke: #8b949e }
  }
"""


def drain_plot(measured: Sequence[int], ramp: Sequence[float]) -> str:
    """Return an SVG document. Both sequences have a value for each second. A ramp far above the
    arrivals leaves the plot at the top."""
    return _Plot(measured, ramp).svg()


class _Plot:
    def __init__(self, measured: Sequence[int], ramp: Sequence[float]) -> None:
        self._measured = measured
        self._ramp = ramp
        self._seconds = len(measured)
        self._tick = _round_step(max(measured) * 1.25 / 5)
        self._top = self._tick * ceil(max(measured) * 1.15 / self._tick)

    def svg(self) -> str:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            "<title>Deliveries per second after an outage: measured, and the ramp</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>',
            *self._grid(),
            *self._bars(),
            *self._ramp_line(),
            *self._labels(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _x(self, second: float) -> float:
        return _LEFT + second * (_WIDTH - _LEFT - _RIGHT) / self._seconds

    def _y(self, rate: float) -> float:
        return _HEIGHT - _BOTTOM - min(rate, self._top) * self._height / self._top

    @property
    def _height(self) -> int:
        return _HEIGHT - _TOP - _BOTTOM

    def _grid(self) -> list[str]:
        parts = []
        for tick in range(0, self._top + 1, self._tick):
            y = self._y(tick)
            kind = "grid" if tick else "axis"
            parts += [
                f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
                f'y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>',
            ]
        for second in range(0, self._seconds + 1, 5 if self._seconds <= 80 else 20):
            x = self._x(second)
            parts.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
                f'text-anchor="middle">{second}</text>'
            )
        return parts

    def _bars(self) -> list[str]:
        parts = []
        width = self._x(1) - self._x(0)
        for second, count in enumerate(self._measured):
            y = self._y(count)
            parts.append(
                f'<rect class="bar" x="{self._x(second) + width * 0.1:.1f}" y="{y:.1f}" '
                f'width="{width * 0.8:.1f}" height="{_HEIGHT - _BOTTOM - y:.1f}"/>'
            )
        return parts

    def _ramp_line(self) -> list[str]:
        """Each step with its rate above it, up to where it leaves the plot."""
        points, parts = [], []
        rate = None
        for second, now in enumerate(self._ramp):
            if now != rate:
                points += [f"{self._x(second):.1f},{self._y(rate or now):.1f}"]
                points += [f"{self._x(second):.1f},{self._y(now):.1f}"]
                beyond = now > self._top
                y = self._y(now) - 6
                words = f"{now:g}/s and on" if beyond else f"{now:g}/s"
                parts.append(
                    f'<text class="rate" x="{self._x(second) + 3:.1f}" y="{y:.1f}">{words}</text>'
                )
                rate = now
                if beyond:
                    break
        else:
            points.append(f"{self._x(self._seconds):.1f},{self._y(rate or 0):.1f}")
        return [f'<polyline class="ramp" points="{" ".join(points)}"/>', *parts]

    def _labels(self) -> list[str]:
        middle = _TOP + self._height / 2
        legend = _WIDTH - _RIGHT - 178
        title = f"{sum(self._measured):,} held deliveries, released after an outage"
        return [
            f'<text class="title" x="{_LEFT}" y="24">{title}</text>',
            f'<rect class="bar" x="{legend}" y="14" width="12" height="12"/>',
            f'<text x="{legend + 18}" y="24">measured</text>',
            f'<line class="ramp" x1="{legend + 96}" x2="{legend + 118}" y1="20" y2="20"/>',
            f'<text x="{legend + 124}" y="24">the ramp</text>',
            f'<text x="{_LEFT + (_WIDTH - _LEFT - _RIGHT) / 2}" y="{_HEIGHT - 12}" '
            'text-anchor="middle">seconds since the first release</text>',
            f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">'
            "arrivals per second</text>",
        ]


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is at least this."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if step * size >= least:
                return step * size
        size *= 10
