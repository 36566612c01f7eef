"""Numbers over time as a line of blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 48
"""The most characters of a line."""
_ZERO: Final = "▁"
_BLOCKS: Final = "▂▃▄▅▆▇█"


def sparkline(numbers: Sequence[int]) -> str:
    """Return a block for each number, or for each few of them if there are many: the lowest for
    zero only, the highest for the greatest."""
    together = -(-len(numbers) // WIDTH)
    sums = [sum(numbers[at : at + together]) for at in range(0, len(numbers), together or 1)]
    top = max(sums, default=0)
    return "".join(
        _BLOCKS[number * (len(_BLOCKS) - 1) // top] if number else _ZERO for number in sums
    )
