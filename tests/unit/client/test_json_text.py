"""JSON that the client sends: every digit as given, and nothing that Hookfast reads otherwise."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast_client.call import checked_json, encode_event
from hookfast_client.json_text import encode, parse


class Color(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("19.90"), "19.90"),
        (Decimal("0.10000000000000000001"), "0.10000000000000000001"),
        (Decimal("1E+400"), "1E+400"),
        (Decimal("-0.00"), "-0.00"),
        (Decimal("0E-8"), "0E-8"),
        (12345678901234567890, "12345678901234567890"),
        (-(2**400), str(-(2**400))),
        (0.1, "0.1"),
        (1e-400, "0.0"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (True, "true"),
        (Size.LARGE, "3"),
        (Color.RED, '"red"'),
        ((1, (2,)), "[1,[2]]"),
        ({}, "{}"),
        ([], "[]"),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ('Zoë "\\ \n\x00\u2028', '"Zoë \\"\\\\ \\n\\u0000\u2028"'),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), '"2026-01-02T03:00:00Z"'),
        (
            datetime(2026, 1, 2, 3, 0, 0, 500, timezone(timedelta(hours=1))),
            '"2026-01-02T02:00:00.000500Z"',
        ),
    ],
)
def test_value_is_sent_with_its_digits(value: object, text: str) -> None:
    assert encode({"a": [value]}) == f'{{"a":[{text}]}}'.encode()


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [0, {"b": {1, 2}}]}, "at /a/1/b: set has no form"),
        ({"a": float("inf")}, "at /a: inf is not a number"),
        ([float("nan")], "at /0: nan is not a number"),
        ({"price": Decimal("NaN")}, "at /price: NaN is not a number"),
        ({"price": Decimal("sNaN")}, "at /price"),
        ({"price": Decimal("-Infinity")}, "at /price: -Infinity is not a number"),
        ({"a": {1: "x"}}, "at /a: the key 1 is not a str"),
        ({None: 1}, "the key None is not a str"),
        ({"1": 1, 1: 2}, "the key 1 is not a str"),
        ({"at": datetime(2026, 1, 2)}, "at /at: a time needs a time zone"),
        ({"on": date(2026, 1, 2)}, "at /on: date has no form"),
        ([UUID(int=0)], "at /0: UUID has no form"),
        ({"b": b"{}"}, "at /b: bytes has no form"),
        ([1j], "at /0: complex has no form"),
        (object(), "object has no form"),
        (["\udc00"], "at /0: text that is not Unicode"),
        ({"\udc00": 1}, "text that is not Unicode"),
        ([10**5000], "at /0: Exceeds the limit"),
        (LOOP, "contains itself"),
        (nested(100_000), "nested too deeply"),
    ],
)
def test_value_that_is_not_json_is_named_by_its_place(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        encode(value)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON_VALUES)
def test_every_json_value_is_written_as_by_the_standard_library(value: object) -> None:
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert encode(value) == expected.encode()
    assert parse(encode(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_every_decimal_arrives_as_it_is(value: Decimal) -> None:
    read = json.loads(encode(value), parse_float=Decimal, parse_int=Decimal)
    assert read.as_tuple() == value.as_tuple()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'1,"tenant_id":"tnt_2"',
        b'\xef\xbb\xbf{"a": 1}',  # a byte order mark
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32-le"),
        '"é"'.encode("latin-1"),
        b"NaN",
        b"[-Infinity]",
        b'{"a": 1, "a": 2}',
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_bytes_that_hookfast_would_refuse_are_not_sent(content: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        checked_json(content)
    with pytest.raises(ValueError, match="not JSON"):
        encode_event("a.b.c", content)


def test_bytes_are_sent_byte_for_byte() -> None:
    data = b' {"amount": 1.10, "big": 1E400}\n'
    assert encode_event("a.b.c", data) == b'{"type":"a.b.c","data":' + data + b"}"
