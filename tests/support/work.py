"""How much work a call does, independent of the machine and its load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_CALLS = frozenset({"call", "c_call"})


def calls_made_by(work: Callable[[], object]) -> int:
    """Run `work` and return how many calls of functions it makes, of Python's and of built-in
    ones."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event in _CALLS

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made
