"""A line that repeats is logged at once, and then once a minute with a count."""

from __future__ import annotations

from hookfast.logs.repeated import EVERY_SECONDS, RepeatedLines


def test_repeated_lines_are_counted_and_logged_once_a_minute() -> None:
    now = 0.0
    lines = RepeatedLines(clock=lambda: now)
    assert lines.due("away") == 1
    assert [lines.due("away") for _ in range(99)] == [None] * 99
    assert lines.due("full") == 1
    now = EVERY_SECONDS
    assert lines.due("away") == 100
    assert lines.due("away") is None
