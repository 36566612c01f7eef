"""Event types, patterns, and which patterns match."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.events.event_type import (
    MAX_LENGTH,
    MAX_PARTS,
    can_have_parts,
    describe_parts,
    matches,
    matching_patterns,
    parse_event_type,
    parse_pattern,
)

# few letters, so that generated patterns and types often meet
names = st.from_regex(re.compile(r"[ab][a0_]?"), fullmatch=True)
event_types = st.lists(names, min_size=1, max_size=MAX_PARTS).map(".".join)
wild = names | st.just("*")
patterns = st.one_of(
    st.lists(wild, min_size=1, max_size=MAX_PARTS),
    st.lists(wild, max_size=MAX_PARTS - 1).map(lambda parts: [*parts, "**"]),
).map(".".join)

LONGEST = "a." + "b" * (MAX_LENGTH - 4) + ".c"


@pytest.mark.parametrize(
    "text",
    [
        "paid",
        "invoice.paid",
        "order.invoice.paid",
        "order.line_item.created.v2",
        "a.b.c.d.e.f",
        "a_.b0.c_1",
        LONGEST,
        "a" * MAX_LENGTH,
    ],
)
def test_event_type_has_one_to_six_lower_case_parts(text: str) -> None:
    assert parse_event_type(text) == text
    assert parse_pattern(text, pointer="/events/0") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c.d.e.f.g",
        "order..paid",
        ".invoice.paid",
        "order.",
        "Order.invoice.paid",
        "order.1nvoice.paid",
        "order._invoice.paid",
        "order.invoice-x.paid",
        "order.invoice.paid\n",
        " order.invoice.paid",
        "order.invoice.*",
        "*",
        "order.invöice.paid",
        "order.invoice٣.paid",
        "x" + LONGEST,
        "a" * (MAX_LENGTH + 1),
    ],
)
def test_other_text_is_not_an_event_type(text: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 6 parts") as caught:
        parse_event_type(text, pointer="/events/3/type")
    assert caught.value.code == "invalid_event_type"
    assert [error.pointer for error in caught.value.errors] == ["/events/3/type"]


@pytest.mark.parametrize("parts", range(1, MAX_PARTS + 1))
def test_demanded_number_of_parts_is_exact_and_in_the_error(parts: int) -> None:
    for count in range(1, MAX_PARTS + 1):
        text = ".".join("abcdef"[:count])
        if count == parts:
            assert parse_event_type(text, parts=parts) == text
            continue
        with pytest.raises(InvalidInput, match=describe_parts(parts)) as caught:
            parse_event_type(text, parts=parts)
        # its example is an event type of that many parts
        [example_type] = re.findall(r"e\.g\. '(.*)'", caught.value.message)
        assert parse_event_type(example_type, parts=parts) == example_type


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "order.*",
        "order.*.paid",
        "*.*.*.*.*.*",
        "order.invoice.paid.**",
        "*.invoice.**",
        "*.*.*.*.*.**",
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
        "*.*.*.*.*.*.*",
        "*.*.*.*.*.*.**",  # nothing remains for the last part
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
        ("order.invoice.paid", "order.invoice", False),
        ("order.*.paid", "order.invoice.paid", True),
        ("order.*.paid", "order.invoice.voided", False),
        ("order.*", "order.invoice.paid", False),  # `*` is exactly one part
        ("*", "paid", True),
        ("*", "invoice.paid", False),
        ("*.invoice.**", "order.invoice.paid", True),
        ("*.invoice.**", "order.refund.paid", False),
        ("order.**", "order.line_item.created.v2", True),
        ("order.**", "order.paid", True),
        ("order.**", "order", False),  # `**` is at least one part
        ("order.**", "orders.invoice.paid", False),
        ("order.invoice.paid.**", "order.invoice.paid", False),
        ("*.**", "order.invoice.paid", True),
        ("*.**", "order", False),
        ("**", "order", True),
        ("**", "a.b.c.d.e.f", True),
    ],
)
def test_pattern_matches_part_by_part(pattern: str, event_type: str, expected: bool) -> None:
    assert matches(pattern, event_type) is expected
    assert (pattern in matching_patterns(event_type)) is expected


def test_fifteen_patterns_match_a_type_of_three_parts_narrowest_first() -> None:
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


@pytest.mark.parametrize("parts", range(1, MAX_PARTS + 1))
def test_matching_patterns_are_all_that_match_among_every_possible_pattern(parts: int) -> None:
    event_type = ".".join("abcdef"[:parts])
    # every pattern of these parts: a part that differs, one that is the same, and wildcards
    possible = {
        ".".join(chosen)
        for length in range(1, MAX_PARTS + 1)
        for last in ("abcdef"[length - 1], "x", "*", "**")
        for chosen in product(
            *[("abcdef"[place], "x", "*") for place in range(length - 1)], (last,)
        )
    }
    found = matching_patterns(event_type)
    assert len(found) == 2 ** (parts + 1) - 1
    assert set(found) == {pattern for pattern in possible if _regex(pattern).fullmatch(event_type)}


def _regex(pattern: str) -> re.Pattern[str]:
    """Return what a pattern means, said in another way."""
    wildcards = {"*": r"[^.]+", "**": r"[^.]+(\.[^.]+)*"}
    return re.compile(r"\.".join(wildcards.get(part, part) for part in pattern.split(".")))


@given(event_type=event_types, pattern=patterns)
def test_matching_patterns_are_exactly_those_that_match(event_type: str, pattern: str) -> None:
    assert parse_pattern(pattern, pointer="/") == pattern
    expected = _regex(pattern).fullmatch(event_type) is not None
    assert matches(pattern, event_type) is expected
    assert (pattern in matching_patterns(event_type)) is expected
    if expected:
        assert can_have_parts(pattern, event_type.count(".") + 1)


@given(event_type=event_types)
@example("a." + "b" * (MAX_LENGTH - 4) + ".c")
@example("b" * (MAX_LENGTH - 4) + ".a.c")  # one character too long with `.**` for `.c`
@example("a" * (MAX_LENGTH - 10) + ".b.c.d.e.f")
def test_every_matching_pattern_is_valid_and_listed_once(event_type: str) -> None:
    found = matching_patterns(event_type)
    assert len(set(found)) == len(found)
    for pattern in found:
        assert parse_pattern(pattern, pointer="/") == pattern
        assert matches(pattern, event_type)
