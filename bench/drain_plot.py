"""The plot of a drain: arrivals per second as bars, the ramp as a step line."""

from __future__ import annotations

from collections.abc import Sequence

from bench.plot import Area, document, scale

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 56, 52


def drain_plot(measured: Sequence[int], ramp: Sequence[float]) -> str:
    """Return an SVG document. Both sequences have a value for each second. A ramp far above the
    arrivals leaves the plot at the top."""
    return _Plot(measured, ramp).svg()


class _Plot:
    def __init__(self, measured: Sequence[int], ramp: Sequence[float]) -> None:
        self._measured = measured
        self._ramp = ramp
        self._seconds = len(measured)
        size = (_WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM)
        self._area = Area(_LEFT, _TOP, *size, *scale(max(measured)))

    def svg(self) -> str:
        parts = [
            *self._area.grid(),
            *self._seconds_below(),
            *self._bars(),
            *self._ramp_line(),
            *self._labels(),
        ]
        title = "Deliveries per second after an outage: measured, and the ramp"
        return document(parts, width=_WIDTH, height=_HEIGHT, title=title)

    def _x(self, second: float) -> float:
        return _LEFT + second * self._area.width / self._seconds

    def _seconds_below(self) -> list[str]:
        return [
            f'<text x="{self._x(second):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{second}</text>'
            for second in range(0, self._seconds + 1, 5 if self._seconds <= 80 else 20)
        ]

    def _bars(self) -> list[str]:
        parts = []
        width = self._x(1) - self._x(0)
        for second, count in enumerate(self._measured):
            y = self._area.y(count)
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
                points += [f"{self._x(second):.1f},{self._area.y(rate or now):.1f}"]
                points += [f"{self._x(second):.1f},{self._area.y(now):.1f}"]
                beyond = now > self._area.most
                y = self._area.y(now) - 6
                words = f"{now:g}/s and on" if beyond else f"{now:g}/s"
                parts.append(
                    f'<text class="rate" x="{self._x(second) + 3:.1f}" y="{y:.1f}">{words}</text>'
                )
                rate = now
                if beyond:
                    break
        else:
            points.append(f"{self._x(self._seconds):.1f},{self._area.y(rate or 0):.1f}")
        return [f'<polyline class="ramp" points="{" ".join(points)}"/>', *parts]

    def _labels(self) -> list[str]:
        middle = _TOP + self._area.height / 2
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
