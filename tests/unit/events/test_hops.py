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
        (["1, 2"], 3),  # a proxy may have joined a repeated header
        (["1, 9"], 10),
        (["9,1"], 10),
        (["1 ,\t4,2"], 5),
        (["2", "4"], 5),  # a repeated header: a proxy may have added one
        (["12345"], 1_235),
        (["9" * 10_000], 10_000),  # Python parses at most 4300 digits
        (["0" * 10_000 + "7"], 8),
    ],
)
def test_hops_are_one_more_than_the_largest_value(values: list[str], hops: int) -> None:
    assert received_hops(values) == hops


def test_a_huge_value_is_beyond_the_limit() -> None:
    assert received_hops(["1" + "0" * 300]) > MAX_HOPS


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "-3", "-0", "+9", "9.0", "2.5", "9;x", "0x9", "0b1", "1e0", "1_0", "two", "3 4"),
        *("\u0663", "\u00b2", "\uff13", "3\u00a0", "3\x0b", '"3"', "9" * 10_000 + "x"),
        *("1,", ",1", "1,,2", ",", "1;2", "4, x", "0" * 50_000 + "x"),
    ],
)
def test_value_that_is_not_a_number_is_beyond_the_limit(value: str) -> None:
    assert received_hops([value]) == received_hops(["0", value]) == MAX_HOPS + 1
