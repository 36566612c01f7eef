"""The hash of an event's content, which says whether a repeated key has the same event."""

from __future__ import annotations

import pytest
from hypothesis import given

from hookfast.storage.events.new_events import NewEvent
from hookfast.strict_json.parser import parse
from tests.unit.strict_json.numbers_as_text import NUMBERS


def digest(data: str) -> str:
    return NewEvent(type="order.invoice.paid", data=data, value=parse(data.encode())).sha256()


@given(NUMBERS, NUMBERS)
def test_numbers_are_the_same_only_with_the_same_digits(first: str, second: str) -> None:
    assert (digest(f'{{"v":[{first}]}}') == digest(f'{{ "v": [{second}] }}')) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"a":1,"b":{"d":1.10,"c":2}}', ' { "b" : { "c" : 2, "d" : 1.10 } , "a" : 1 } '),
        ('"\\u00e9\\/"', '"é/"'),
        ('"\\ud83d\\ude00"', '"😀"'),
    ],
)
def test_order_of_members_space_and_escapes_make_no_other_event(first: str, second: str) -> None:
    assert digest(first) == digest(second)


def test_values_that_receivers_get_differently_are_different_events() -> None:
    values = ["1", "1.0", "true", '"1"', "[1]", "1e0", "-0", "0", "-0.0", "null"]
    assert len({digest(value) for value in values}) == len(values)
