"""The order of the tests: every xdist worker alternates between long and short tests.

Long tests mostly wait, for timers and processes; short ones keep a processor busy. Mixed, they use
all processors all the time. Only short tests are left for the end: otherwise one worker would still
run a long test while the others are idle. Tests that choose their event loop come first.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby, islice
from pathlib import Path

import pytest

from tests.support.event_loop import chosen_loop

# Whole processes, browsers, workflows and silent servers; other tests take milliseconds.
_LONG = (
    *("docs", "browser", "e2e", "integration/delivery", "integration/cli"),
    "integration/storage/database",
)
_SHORT_AT_THE_END = 0.2
"""The part of the short tests that runs after all long ones."""
_TESTS = Path(__file__).parents[1]


def order_for_workers(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in an order in which each worker alternates between files of long tests and
    equal parts of its short ones.

    xdist's `worksteal` gives each worker an equal, contiguous part of the list. The long tests of a
    file stay together, for the fixtures that they share.
    """
    first = [item for item in items if chosen_loop(item)]
    long = [item for item in items if _is_long(item.path)]
    short = iter([item for item in items if not (chosen_loop(item) or _is_long(item.path))])
    files = [list(tests) for _, tests in groupby(long, key=lambda item: item.path)]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        size = len(items) * (worker + 1) // workers - len(ordered)
        ordered += first[worker::workers]
        long_share = files[worker::workers]
        rest = size - len(first[worker::workers]) - sum(map(len, long_share))
        ordered += _alternating(long_share, list(islice(short, max(0, rest))))
    return ordered + list(short)


def _alternating(files: list[list[pytest.Item]], short: list[pytest.Item]) -> list[pytest.Item]:
    """Return the files' tests with a part of the short ones after each file."""
    part = int(len(short) * (1 - _SHORT_AT_THE_END) / max(1, len(files)))
    rest = iter(short)
    return [item for file in files for item in (*file, *islice(rest, part))] + list(rest)


@cache
def _is_long(file: Path) -> bool:
    return file.relative_to(_TESTS).as_posix().startswith(_LONG)
