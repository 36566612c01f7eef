"""Reading the hops of a received request."""

from __future__ import annotations

import pytest

from hookfast.events.hops import MAX_HOPS, received_hops


@pytest.mark.parametrize(
    ("values", "hops"),
    [
        ([], 1),
        (["0"], 1),
        (["1"], 2),
        (["5"], 6),
        ([" 4\t"], 5),
        (["004"], 5),
        ([""], 1),
        (["-3"], 1),
        (["+3"], 1),
        (["2.5"], 1),
        (["two"], 1),
        (["\u0663"], 1),  # an Arabic-Indic 3
        (["1, 2"], 3),  # a proxy may have joined a repeated header
        (["4,x ,\t1"], 5),
        (["2", "4", "x"], 5),  # a repeated header: a proxy may have added one
        (["12345"], 1_235),
        (["9" * 10_000], 10_000),  # Python parses at most 4300 digits
        (["0" * 10_000 + "7"], 8),
    ],
)
def test_hops_are_one_more_than_the_largest_valid_value(values: list[str], hops: int) -> None:
    assert received_hops(values) == hops


def test_a_huge_value_is_beyond_the_limit() -> None:
    assert received_hops(["1" + "0" * 300]) > MAX_HOPS
