"""SVG documents that are readable on light and on dark pages, and areas with a scale of round
numbers. No library is needed, and the same values give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

_STYLE = """
  .page { fill: #ffffff } text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 } .bar { fill: #4c8fd6 }
  .line { stroke: #4c8fd6; stroke-width: 2; fill: none }
  .ramp { stroke: #c2410c; stroke-width: 2; fill: none }
  .grid { stroke: #d0d7de } .axis { stroke: #57606a }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .bar { fill: #4f86c6 }
    .line { stroke: #4f86c6 } .ramp { stroke: #fb923c }
    .grid { stroke: #30363d } .axis { stroke: #8b949e }
  }
"""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of the document in which values from 0 to `most` are drawn, 0 at its bottom.
    `tick` is the distance of the scale's lines."""

    left: float
    top: float
    width: float
    height: float
    most: int
    tick: int

    @property
    def bottom(self) -> float:
        """The y of the value 0."""
        return self.top + self.height

    @property
    def right(self) -> float:
        """The x of the right side."""
        return self.left + self.width

    def y(self, value: float) -> float:
        """Return the y of a value; values that are too high are at the top."""
        return self.bottom - min(value, self.most) * self.height / self.most

    def grid(self) -> list[str]:
        """Return a line for each tick, with its number."""
        parts = []
        for tick in range(0, self.most + 1, self.tick):
            y = self.y(tick)
            kind = "grid" if tick else "axis"
            parts += [
                f'<line class="{kind}" x1="{self.left:g}" x2="{self.right:g}" '
                f'y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{self.left - 8:g}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>',
            ]
        return parts


def scale(highest: float) -> tuple[int, int]:
    """Return the top of a scale for values up to `highest`, and the distance of its ticks."""
    tick = round_step(highest * 1.25 / 5)
    return tick * ceil(highest * 1.15 / tick), tick


def round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 … that is at least this."""
    size = 1
    while True:
        for step in (1, 2, 5):
            if step * size >= least:
                return step * size
        size *= 10


def document(
    parts: Sequence[str], *, width: int, height: int, title: str, description: str = ""
) -> str:
    """Return the SVG document. Readers that do not see it get the title and the description."""
    described = [f"<desc>{escape(description)}</desc>"] if description else []
    whole = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        *described,
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(whole) + "\n"
