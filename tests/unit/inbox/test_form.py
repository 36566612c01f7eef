"""Forms are parsed as the URL Standard of the WHATWG says, in little memory."""

from __future__ import annotations

import json
import re
import tracemalloc
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.inbox import form
from hookfast.inbox.form import MAX_FIELDS, form_object, form_pairs, read_form

PIECES = [
    *(
        b"%",
        b"%2",
        b"%20",
        b"%c3%A9",
        b"%F0%9F%A6%8A",
        b"%E2%82",
        b"%00",
        b"%%41",
        b"%FF",
        b"%u0041",
    ),
    *(b"+", b"=", b"&", b"a", b";", b"\x00", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"%EF%BB%BF"),
]
bodies = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join) | st.binary(max_size=40)


def parsed_by_the_standard(body: bytes) -> list[tuple[str, str]]:
    """The steps of the URL Standard, sections 5.1 and 1.3, one by one."""
    pairs = []
    for sequence in body.split(b"&"):
        if not sequence:
            continue
        name, _, value = sequence.partition(b"=")
        pairs.append((percent_decoded(name), percent_decoded(value)))
    return pairs


def percent_decoded(field: bytes) -> str:
    field = field.replace(b"+", b" ")
    output, at = bytearray(), 0
    while at < len(field):
        digits = field[at + 1 : at + 3]
        if field[at] == 0x25 and re.fullmatch(rb"[0-9A-Fa-f]{2}", digits):
            output.append(int(digits, 16))
            at += 3
        else:
            output.append(field[at])
            at += 1
    return output.decode("utf-8", "replace")


@given(bodies, st.integers(1, 9))
def test_a_form_is_parsed_as_by_the_standard(body: bytes, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pattern = form._PIECE.pattern.replace(b"4096", str(at_once).encode())
        patch.setattr(form, "_PIECE", re.compile(pattern, re.DOTALL))
        assert form_pairs(body) == parsed_by_the_standard(body)


@given(st.text("abé%+=& 🦊", max_size=30))
def test_a_form_of_text_is_parsed_as_by_the_standard_library(text: str) -> None:
    expected = parse_qsl(text, keep_blank_values=True, errors="replace")
    assert form_pairs(text.encode()) == expected


@given(bodies)
def test_a_form_as_json_has_all_values_in_their_order(body: bytes) -> None:
    reading = read_form(body, encoding=None, json_field=None)
    assert json.loads(reading.text) == reading.value == form_object(body)
    for name, value in form_object(body).items():
        values = [each for other, each in parsed_by_the_standard(body) if other == name]
        assert value == (values if len(values) > 1 else values[0])


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        (b"", []),
        (b"&&", []),
        (b"a=1&&b=2", [("a", "1"), ("b", "2")]),
        (b"a", [("a", "")]),
        (b"=", [("", "")]),
        (b"a=b=c", [("a", "b=c")]),
        ("ä=ü".encode(), [("ä", "ü")]),
        (b"a=%E9", [("a", "\ufffd")]),
        (b"a=%zz%4", [("a", "%zz%4")]),
        (b"a%00=%00", [("a\0", "\0")]),
    ],
)
def test_every_body_is_a_form(body: bytes, pairs: list[tuple[str, str]]) -> None:
    assert form_pairs(body) == pairs


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("latin_1", b"a=%E9"), ("cp1252", b"a=\xe9"), ("utf_16", "a=é".encode()), (None, b"a=%C3%A9")],
)
def test_a_form_is_decoded_in_the_charset_that_extends_ascii(
    encoding: str | None, body: bytes
) -> None:
    assert form_pairs(body, encoding=encoding) == [("a", "é")]


def test_a_form_has_at_most_the_maximum_number_of_fields() -> None:
    assert len(form_pairs(b"&".join([b"a=1"] * MAX_FIELDS))) == MAX_FIELDS
    with pytest.raises(InvalidInput, match="10,000 fields") as refused:
        form_pairs(b"&".join([b"a=1"] * (MAX_FIELDS + 1)))
    assert refused.value.code == "invalid_form"


@pytest.mark.parametrize("escape", [b"%20", b"%C3%A9", b"%", b"+"])
def test_a_form_of_escapes_takes_little_more_memory_than_itself(escape: bytes) -> None:
    body = b"a=" + escape * (300_000 // len(escape))
    tracemalloc.start()
    try:
        form_pairs(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(body)
