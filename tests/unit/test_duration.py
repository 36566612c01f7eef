"""Durations in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.duration import format_duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (259_200, "72 h"),
        (5_400, "90 min"),
        (3_600, "1 h"),
        (60, "1 min"),
        (61, "61 s"),
        (0.6, "1 s"),
        (0, "0 s"),
    ],
)
def test_a_duration_is_a_whole_number_of_its_largest_unit(seconds: float, words: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == words
