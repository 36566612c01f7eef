"""Numbers as written: exact values, and the same digits when they are written again."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.strict_json.numbers import NUMBER_TYPES, canonical
from hookfast.strict_json.parser import parse
from hookfast.strict_json.text import Layout, from_text, to_text
from tests.unit.strict_json.numbers_as_text import NUMBERS

AS_WRITTEN = [
    "0",
    "-0",
    "-0.0",
    "0.00000000",
    "1.10",
    "1E5",
    "1e5",
    "1e+05",
    "100.0e2",
    "0e99999",
    "1e-400",
    "9007199254740993.0",
    "0.10000000000000000001",
    "1.7976931348623157e308",
    "12345678901234567890",
    "0." + "3" * 5_000,
]
BEYOND_THE_PARSER = ["1e400", "-1e400", "1e-10000", "1e99999999999999999999", "9" * 5_000]


@pytest.mark.parametrize("text", AS_WRITTEN)
def test_a_number_is_written_with_the_digits_it_was_sent_with(text: str) -> None:
    document = f'{{"a":[{text}],"b":-0.5}}'
    assert to_text(parse(document.encode())) == document
    assert to_text(from_text(document)) == document


@pytest.mark.parametrize("text", BEYOND_THE_PARSER)
def test_a_number_that_a_request_may_not_have_is_read_and_written_elsewhere(text: str) -> None:
    value = from_text(f"[{text}]")
    assert to_text(value) == f"[{text}]"
    assert value == [value[0]]
    assert (value[0] > 10**308) == (not text.startswith("-") and text != "1e-10000")


@pytest.mark.parametrize(
    "document",
    [
        "-0",
        "[-0]",
        "[-0,1]",
        '{"a":-0}',
        '{"a":-0,"b":[0,-0]}',
        '{"a":"x-0,","b":-0}',
        "[[-0],-0.0]",
    ],
)
def test_the_sign_of_zero_is_kept(document: str) -> None:
    assert to_text(parse(document.encode())) == document


@given(NUMBERS)
def test_a_number_is_the_decimal_of_its_text(text: str) -> None:
    value: Any = parse(text.encode())
    assert type(value) in NUMBER_TYPES
    assert value == Decimal(text)
    assert hash(value) == hash(Decimal(text))
    assert to_text(value) == to_text(from_text(text)) == text


@given(NUMBERS, NUMBERS)
def test_numbers_compare_as_decimals_do(first: str, second: str) -> None:
    one: Any = parse(first.encode())
    other: Any = parse(second.encode())
    exact, exact_other = Decimal(first), Decimal(second)
    assert (one < other, one == other) == (exact < exact_other, exact == exact_other)


@given(NUMBERS, NUMBERS)
def test_equal_numbers_have_one_canonical_text(first: str, second: str) -> None:
    texts = [canonical(from_text(text)) for text in (first, second)]
    assert (texts[0] == texts[1]) == (Decimal(first) == Decimal(second))
    assert [Decimal(text) for text in texts] == [Decimal(first), Decimal(second)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("100", "100"),
        ("1e2", "100"),
        ("-0.0", "0"),
        ("0e7", "0"),
        ("-1.10", "-1.1"),
        ("1.5e-3", "0.0015"),
        ("12345678901234567890.10", "12345678901234567890.1"),
        ("1e40", "1" + "0" * 40),
        ("-120e40", "-12e41"),
        ("0." + "0" * 40 + "1", "0." + "0" * 40 + "1"),
        ("-0." + "0" * 40 + "1", "-0." + "0" * 40 + "1"),
        ("0." + "0" * 41 + "12", "12e-43"),
        ("1e-9999", "1e-9999"),
    ],
)
def test_a_canonical_number_has_no_zeros_at_its_end_and_an_exponent_instead_of_many_others(
    text: str, expected: str
) -> None:
    assert canonical(from_text(text)) == expected


def test_a_number_keeps_its_digits_when_it_is_copied() -> None:
    assert to_text(copy.deepcopy(parse(b'{"a":[1E5]}'))) == '{"a":[1E5]}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
LAYOUTS: dict[Layout, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "spaced": {},
    "indented": {"indent": 2},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@given(value=values, sort_keys=st.booleans())
def test_values_with_decimals_are_laid_out_like_others(
    layout: Layout, value: Any, sort_keys: bool
) -> None:
    def by_the_library(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, **LAYOUTS[layout])

    assert to_text(value, layout=layout, sort_keys=sort_keys) == by_the_library(value)
    with_decimal = {"a": value, "n": Decimal("1.5")}
    assert to_text(with_decimal, layout=layout, sort_keys=sort_keys) == by_the_library(
        {"a": value, "n": 1.5}
    )


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    text = to_text({"\ud800": ["é\udfff", Decimal("1.5")]})
    assert text == '{"\\ud800":["é\\udfff",1.5]}'
    assert from_text(text.encode()) == {"\ud800": ["é\udfff", Decimal("1.5")]}


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), float("nan")])
def test_value_that_is_not_a_json_number_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON"):
        to_text([value])


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "{", ""])
def test_text_that_is_no_json_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_text(text)
