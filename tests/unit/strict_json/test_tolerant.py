"""The JSON of third parties is read although the strict parser refuses it, and keeps its digits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import parse
from hookfast.strict_json.text import from_text
from hookfast.strict_json.tolerant import MAX_DEPTH, read

HUGE = "1" * 5_000


@pytest.mark.parametrize(
    ("raw", "value", "text"),
    [
        (b' {"a": 1.50}\n', {"a": 1.5}, '{"a": 1.50}'),
        # marks and encodings
        (b'\xef\xbb\xbf{"a":"\xc3\xbc"}', {"a": "ü"}, '{"a":"ü"}'),
        ('{"a":"ü"}'.encode("utf-16"), {"a": "ü"}, '{"a":"ü"}'),
        (b"\xfe\xff" + '{"a":"ü"}'.encode("utf-16-be"), {"a": "ü"}, '{"a":"ü"}'),
        ('{"a":"ü"}'.encode("utf-32"), {"a": "ü"}, '{"a":"ü"}'),
        ('{"a":"ü"}'.encode("utf-16-le"), {"a": "ü"}, '{"a":"ü"}'),
        ('{"a":"ü"}'.encode("utf-32-be"), {"a": "ü"}, '{"a":"ü"}'),
        (b'{"a":"f\xfcr","b":1}', {"a": "f\ufffdr", "b": 1}, '{"a":"f\ufffdr","b":1}'),
        (b'\xef\xbb\xbf["\xff"]', ["\ufffd"], '["\ufffd"]'),
        # duplicate members: the last, at its first place
        (b'{"a":1.10,"b":2,"a":1E5}', {"a": 1e5, "b": 2}, '{"a":1E5,"b":2}'),
        (b'[{"a":{"b":-0,"b":-0.0}}]', [{"a": {"b": -0.0}}], '[{"a":{"b":-0.0}}]'),
        (b'{"a":"\\u0000\\ud800","a":"\\ud800\\u0000"}', None, '{"a":"\\ud800\\u0000"}'),
        # characters that JSON can escape and PostgreSQL cannot store
        (b'{"\\u0000": "a\\u0000b"}', {"\0": "a\0b"}, '{"\\u0000": "a\\u0000b"}'),
        (b'"\\ud800 \\uDFFF"', "\ud800 \udfff", '"\\ud800 \\uDFFF"'),
        (b'"a\tb\x00\nc"', "a\tb\0\nc", '"a\\tb\\u0000\\nc"'),
        # numbers as written
        (b"1e400", Decimal("1e400"), "1e400"),
        (b'{"n":-1E+400,"n":1e-400}', {"n": Decimal("1e-400")}, '{"n":1e-400}'),
        (b"[-1e9999999999999999999]", None, "[-1e9999999999999999999]"),
        (HUGE.encode(), Decimal(HUGE), HUGE),
        (f'{{"a":1,"a":-{HUGE}}}'.encode(), {"a": Decimal(f"-{HUGE}")}, f'{{"a":-{HUGE}}}'),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None, "[" * MAX_DEPTH + "]" * MAX_DEPTH),
    ],
)
def test_text_is_read_as_by_the_readers_of_the_web(raw: bytes, value: Any, text: str) -> None:
    reading = read(raw)
    assert reading.text == text
    assert value is None or reading.value == value
    assert from_text(reading.text.encode()) == reading.value
    json.loads(reading.text, parse_int=str)  # as a receiver reads it


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        *(("latin_1", "fünf Mäuse"), ("cp1252", "5 € – „fünf“"), ("iso8859_15", "5 €")),
        *(("shift_jis", "日本語ソ"), ("euc_jp", "日本語"), ("iso2022_jp", "日本語")),
        *(("gb18030", "中文"), ("big5", "中文"), ("euc_kr", "한국어"), ("koi8_r", "Привет")),
        *(("cp1251", "Привет"), ("utf_16_le", "ü"), ("utf_16_be", "ü"), ("utf_32_le", "ü")),
        ("ascii", "plain"),
    ],
)
def test_text_is_decoded_in_the_named_encoding(encoding: str, text: str) -> None:
    raw = json.dumps({"text": text}, ensure_ascii=False)
    reading = read(raw.encode(encoding), encoding=encoding)
    assert (reading.value, reading.text) == ({"text": text}, raw)


def test_text_in_utf_8_is_read_although_another_encoding_is_named() -> None:
    assert read('"ü"'.encode(), encoding="ascii").value == "ü"
    assert read('\ufeff"ü"'.encode(), encoding="latin_1").value == "ü"


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" ", b"{", b"{}{}", b"nul", b"NaN", b'{"a":Infinity}', b"'a'", b"{a:1}", b"01"),
        *(b'{"a":1,}', b"// 1", b"\xff\xfe", b"a=1", b"<a/>", b"\x1f\x8b\x08\x00"),
        *(b"[" * 201 + b"]" * 201, b"[" * 1_000_000, b'{"a":' * 100_000),
    ],
)
def test_text_that_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(raw)
    assert refused.value.code == "invalid_json"


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.booleans(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be"]))
def test_strict_json_is_read_as_by_the_strict_parser_in_every_unicode_encoding(
    value: Any, is_ascii: bool, encoding: str
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    reading = read(text.encode(encoding), encoding=None if encoding == "utf-8" else encoding)
    assert reading.text == text
    try:
        assert reading.value == parse(text.encode())
    except InvalidInput:  # NUL, which the tolerant reader is for
        assert json.loads(reading.text) == value


@given(
    st.binary(max_size=60) | st.text('{}[]",:\\u0d8 1eE.-nutrlfas\n\t', max_size=40).map(str.encode)
)
def test_any_bytes_are_read_or_refused_without_another_error(raw: bytes) -> None:
    try:
        reading = read(raw)
    except InvalidInput:
        return
    reading.text.encode()
    assert from_text(reading.text) == reading.value
