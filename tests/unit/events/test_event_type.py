"""Event types, patterns, and which patterns match."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.events.event_type import (
    MAX_LENGTH,
    matches,
    matching_patterns,
    parse_event_type,
    parse_pattern,
)

# few letters, so that generated patterns and types often meet
names = st.from_regex(re.compile(r"[ab][a0_]?"), fullmatch=True)
event_types = st.tuples(names, names, names).map(".".join)
wild = names | st.just("*")
patterns = st.one_of(
    st.tuples(wild, wild, wild),
    st.tuples(wild, wild, st.just("**")),
    st.tuples(wild, st.just("**")),
    st.tuples(st.just("**")),
).map(".".join)

LONGEST = "a." + "b" * (MAX_LENGTH - 4) + ".c"


@pytest.mark.parametrize(
    "text", ["order.invoice.paid", "a.b.c", "classroom.submission_2.created", "a_.b0.c_1", LONGEST]
)
def test_event_type_has_three_lower_case_parts(text: str) -> None:
    assert parse_event_type(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order",
        "order.invoice",
        "order.invoice.paid.twice",
        "order..paid",
        ".invoice.paid",
        "order.invoice.",
        "Order.invoice.paid",
        "order.1nvoice.paid",
        "order._invoice.paid",
        "order.invoice-x.paid",
        "order.invoice.paid\n",
        " order.invoice.paid",
        "order.invoice.*",
        "order.invöice.paid",
        "order.invoice٣.paid",
        "x" + LONGEST,
    ],
)
def test_other_text_is_not_an_event_type(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_event_type(text, pointer="/events/3/type")
    assert caught.value.code == "invalid_event_type"
    assert [error.pointer for error in caught.value.errors] == ["/events/3/type"]


@pytest.mark.parametrize(
    "text",
    [
        "order.invoice.paid",
        "order.*.paid",
        "*.*.*",
        "order.invoice.**",
        "*.invoice.**",
        "order.**",
        "*.**",
        "**",
        LONGEST,
    ],
)
def test_pattern_has_wildcards_for_parts(text: str) -> None:
    assert parse_pattern(text, pointer="/events/0") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",  # one part, and every event type has three
        "order.*",
        "order.invoice.paid.**",  # nothing remains for the last part
        "*.*.*.**",
        "**.paid",
        "order.**.paid",
        "**.**",
        "order.inv*.paid",
        "order.***",
        "order.invoice.paid\n",
        "Order.**",
        "order .**",
        "x" + LONGEST,
    ],
)
def test_other_text_is_not_a_pattern(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_pattern(text, pointer="/events/0")
    assert caught.value.code == "invalid_pattern"
    assert [error.pointer for error in caught.value.errors] == ["/events/0"]


@pytest.mark.parametrize(
    ("pattern", "event_type", "expected"),
    [
        ("order.invoice.paid", "order.invoice.paid", True),
        ("order.invoice.paid", "order.invoice.paid_late", False),
        ("order.*.paid", "order.invoice.paid", True),
        ("order.*.paid", "order.invoice.voided", False),
        ("*.*.*", "order.invoice.paid", True),
        ("*.invoice.**", "order.invoice.paid", True),
        ("*.invoice.**", "order.refund.paid", False),
        ("order.**", "order.invoice.paid", True),
        ("order.**", "orders.invoice.paid", False),
        ("*.**", "order.invoice.paid", True),
        ("**", "order.invoice.paid", True),
    ],
)
def test_pattern_matches_part_by_part(pattern: str, event_type: str, expected: bool) -> None:
    assert matches(pattern, event_type) is expected


def test_fifteen_patterns_match_a_type_narrowest_first() -> None:
    assert matching_patterns("a.b.c") == (
        "a.b.c",
        "a.b.*",
        "a.*.c",
        "a.*.*",
        "*.b.c",
        "*.b.*",
        "*.*.c",
        "*.*.*",
        "a.b.**",
        "a.*.**",
        "*.b.**",
        "*.*.**",
        "a.**",
        "*.**",
        "**",
    )


@given(event_type=event_types, pattern=patterns)
def test_matching_patterns_are_exactly_those_that_match(event_type: str, pattern: str) -> None:
    assert parse_pattern(pattern, pointer="/") == pattern
    assert matches(pattern, event_type) is (pattern in matching_patterns(event_type))


@given(event_type=event_types)
@example("a." + "b" * (MAX_LENGTH - 4) + ".c")
@example("b" * (MAX_LENGTH - 4) + ".a.c")  # one character too long with `.**` for `.c`
def test_every_matching_pattern_is_valid_and_listed_once(event_type: str) -> None:
    found = matching_patterns(event_type)
    assert len(set(found)) == len(found)
    for pattern in found:
        assert parse_pattern(pattern, pointer="/") == pattern
        assert matches(pattern, event_type)
