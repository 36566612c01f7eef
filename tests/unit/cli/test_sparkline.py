"""Numbers over time as a line of blocks."""

from __future__ import annotations

import pytest

from hookfast.cli.remote.figures.sparkline import WIDTH, sparkline


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ([], ""),
        ([0, 0, 0], "▁▁▁"),
        ([0, 1, 6, 12], "▁▂▅█"),
        # one in a million is not nothing
        ([0, 1, 1_000_000], "▁▂█"),
        ([7], "█"),
    ],
)
def test_the_lowest_block_is_nothing_and_the_highest_the_most(
    numbers: list[int], line: str
) -> None:
    assert sparkline(numbers) == line


def test_many_numbers_are_added_together() -> None:
    # 100 numbers are 34 blocks of three, the last of one
    line = sparkline([0] * 99 + [5])
    assert line == "▁" * 33 + "█"
    assert len(sparkline([1] * 1_500)) <= WIDTH
