"""The order of the tests: every xdist worker runs its long tests first.

Otherwise a long test may start last, and one worker runs it while the others are idle. Long tests
mostly wait for timers, which leaves the processors to the tests that run beside them.
"""

from __future__ import annotations

from itertools import groupby, islice
from pathlib import Path

import pytest

# Whole processes, browsers and workflows; other tests take milliseconds.
_LONG = ("docs", "browser", "e2e", "integration/delivery", "integration/cli")
_TESTS = Path(__file__).parents[1]


def order_for_workers(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in an order in which each worker runs its share of the long ones first.

    xdist's `worksteal` gives each worker an equal, contiguous part of the list. The tests of a file
    stay together, for the fixtures that they share.
    """
    long = [item for item in items if _is_long(item)]
    short = iter([item for item in items if not _is_long(item)])
    files = [list(tests) for _, tests in groupby(long, key=lambda item: item.path)]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        size = len(items) * (worker + 1) // workers - len(ordered)
        long_share = [item for file in files[worker::workers] for item in file]
        ordered += long_share
        ordered += islice(short, max(0, size - len(long_share)))
    return ordered + list(short)


def _is_long(item: pytest.Item) -> bool:
    return item.path.relative_to(_TESTS).as_posix().startswith(_LONG)
