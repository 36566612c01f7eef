"""The order of the tests: what takes long is begun first, on every worker.

Otherwise the last tests to begin are the longest, and one worker is at them while the others have
nothing left. Waiting for timers also leaves the processors to the tests beside it.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

# Whole processes, browsers and workflows; the rest takes milliseconds.
_LONG = ("docs", "browser", "e2e", "integration/delivery", "integration/cli")
_TESTS = Path(__file__).parents[1]


def deal(items: list[pytest.Item], hands: int) -> list[pytest.Item]:
    """`items` in an order that gives each of `hands` workers, which take equal parts of it one
    after another (xdist's `worksteal`), its share of the long tests, and those first. Tests that
    stood together stay so, for the fixtures they share."""
    long = [item for item in items if _is_long(item)]
    short = iter([item for item in items if not _is_long(item)])
    files = [list(tests) for _, tests in groupby(long, key=lambda item: item.path)]
    dealt = []
    for hand in range(hands):
        size = len(items) * (hand + 1) // hands - len(dealt)
        mine = [item for file in files[hand::hands] for item in file]
        dealt += mine
        dealt += [item for _, item in zip(range(size - len(mine)), short, strict=False)]
    return dealt + list(short)


def _is_long(item: pytest.Item) -> bool:
    return item.path.relative_to(_TESTS).as_posix().startswith(_LONG)
