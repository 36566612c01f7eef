"""Strict JSON: accepted values, rejected ones with their position, and the text of each part."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import MAX_DEPTH, ParsedJson, parse, parse_object, parse_with_text
from hookfast.strict_json.text import from_text, to_text

# text that PostgreSQL can store: no lone surrogates, no U+0000
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
written = st.tuples(values, st.booleans(), st.sampled_from([None, 1, "\t"])).map(
    lambda drawn: json.dumps(drawn[0], ensure_ascii=drawn[1], indent=drawn[2]).encode()
)


def as_decimals(raw: bytes | str) -> str:
    """Return the `repr` of a JSON text's value, with decimals in place of floats."""
    return repr(json.loads(raw, parse_float=Decimal))


def fault(raw: bytes) -> str:
    """Return the error message, after checking its format."""
    with pytest.raises(InvalidInput) as caught:
        parse(raw)
    error = caught.value
    assert error.code == "invalid_json"
    assert [one.pointer for one in error.errors] == [""]
    assert error.__cause__ is None
    return error.message


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"null", None),
        (b" \t\r\n true \t\r\n ", True),
        (b"-0", 0),
        (b"-1.5e+3", -1500),
        (b"1e308", 10**308),
        (b"1e-999", Decimal("1e-999")),  # no double, and not zero
        (b"0e-99999", 0),
        (b"9" * 4300, int("9" * 4300)),
        (b'"\\u00e9\\n"', "é\n"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\\\u0000 \\\\ud800"', "\\u0000 \\ud800"),  # escaped backslashes, not escapes
        (b'"\\\\\\u0041"', "\\A"),
        (b'{"a":{"a":1},"b":{"a":1}}', {"a": {"a": 1}, "b": {"a": 1}}),
        (b'{"":[]}', {"": []}),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)),
        (b'"' + b"[" * 100 + b'"', "[" * 100),
        (b'["\\\\",' + b'"{",' * 100 + b'"\\"["]', ["\\", *["{"] * 100, '"[']),
        (b"[" + b"[]," * 100 + b"{}]", [*([] for _ in range(100)), {}]),
    ],
)
def test_valid_json_is_accepted(raw: bytes, value: object) -> None:
    assert parse(raw) == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "the body is empty"),
        (b" \n\t", "the body is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', r"not UTF-8 \(byte 7\)"),
        (b'"\xed\xa0\x80"', r"not UTF-8 \(byte 2\)"),  # a lone surrogate, unescaped
        (b'"\xc0\x80"', r"not UTF-8"),  # U+0000, overlong
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a":1} {', "text after the value at line 1, column 9"),
        (b'{"a":\n 1,}', "line 2, column 4"),
        (b"{'a':1}", "double quotes at line 1, column 2"),
        (b"[1,]", "line 1, column 4"),
        (b"[1 2]", "line 1, column 4"),
        (b'{"a" 1}', "line 1, column 6"),
        (b'{"a":1', "line 1, column 7"),
        (b"01", "line 1, column 2"),
        (b"+1", "line 1, column 1"),
        (b".5", "line 1, column 1"),
        (b"1.", "line 1, column 2"),
        (b"nul", "line 1, column 1"),
        (b"[\xc2\xa0]", "line 1, column 2"),  # a no-break space is not white space in JSON
        (b'"a\tb"', "Invalid control character at line 1, column 3"),
        (b'"a\0b"', "Invalid control character at line 1, column 3"),
        (b'"\\x41"', "Invalid .escape at line 1, column 2"),
        (b'"\\u12"', "line 1, column"),
        (b'"abc', "Unterminated string starting at line 1, column 1"),
        (b"NaN", "NaN and Infinity are not JSON at line 1, column 1"),
        (b"[1,Infinity]", "NaN and Infinity are not JSON at line 1, column 4"),
        (b'{"NaN":\n-Infinity}', "NaN and Infinity are not JSON at line 2, column 1"),
        (b"[1.5e1, 1e999]", "out of range at line 1, column 9"),
        (b"-1.0E+400", "out of range at line 1, column 1"),
        (b"1.8e308", "out of range at line 1, column 1"),  # the largest double is 1.797…e308
        (b"[1e-10000]", "out of range at line 1, column 2"),
        (b"1e99999999999999999999", "out of range at line 1, column 1"),
        (b"1e-99999999999999999999", "out of range at line 1, column 1"),
        (b"9" * 400 + b".0", "out of range at line 1, column 1"),
        (b'{"a":' + b"9" * 4301 + b"}", "too many digits at line 1, column 6"),
        (b'{"a":1,"a":1}', "same name at line 1, column 8"),
        (b'{"a":1,"\\u0061":1}', "same name at line 1, column 8"),
        (b'[{"b":["b",{"c":"c","d":2,\n "c":3}]}]', "same name at line 2, column 2"),
        (b'"\\u0000"', "u0000 is not accepted at line 1, column 2"),
        (b'{"\\u0000":1}', "u0000 is not accepted at line 1, column 3"),
        (b'"\\\\\\u0000"', "u0000 is not accepted at line 1, column 4"),
        (b'"\\ud800"', "unpaired surrogate at line 1, column 2"),
        (b'"\\uD83Dx"', "unpaired surrogate at line 1, column 2"),
        (b'"\\ude00"', "unpaired surrogate at line 1, column 2"),
        (b'"\\ud83d\\ud83d\\ude00"', "unpaired surrogate at line 1, column 2"),
        (b'"\\ud83d\\ude00\\ude00"', "unpaired surrogate at line 1, column 14"),
        (b'"\\ud83d\\\\ude00"', "unpaired surrogate at line 1, column 2"),
        (b'{"\\udfff":1}', "unpaired surrogate at line 1, column 3"),
        (b"[" * 65 + b"]" * 65, "deeper than 64 levels at line 1, column 65"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64 levels at line 1, column 321"),
        (b"[" * 1_000_000, "deeper than 64 levels at line 1, column 65"),
        (b'{"":[' * 200_000, "deeper than 64 levels"),
        (b"[" + b"[]," * 64 + b"[" * 64 + b"]" * 65, "deeper than 64 levels"),
    ],
)
def test_json_on_which_parsers_disagree_is_rejected(raw: bytes, message: str) -> None:
    assert re.search(message, fault(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"hunter2":1,"hunter2":2}',
        b'{"password":"hunter2"',
        b'{"password":"hunter2" x}',
        b'["hunter2\\u0000"]',
        b'["hunter2\\ud800"]',
        b'["\\hunter2"]',
        b'["hunter2\xff"]',
        b'["hunter2", 1e999, NaN]',
    ],
)
def test_a_message_never_quotes_the_body(raw: bytes) -> None:
    assert "hunter2" not in fault(raw)


def test_the_depth_limit_can_be_set() -> None:
    assert parse(b"[[]]", max_depth=2) == [[]]
    with pytest.raises(InvalidInput, match="deeper than 1 levels at line 1, column 2"):
        parse(b"[[]]", max_depth=1)


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"{}"', b"null"])
def test_other_json_is_rejected_when_an_object_is_required(raw: bytes) -> None:
    with pytest.raises(InvalidInput, match="must be a JSON object") as caught:
        parse_object(raw)
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "line 1, column 2"),
        (b'{"a"', "Expecting ':' at line 1, column 5"),
        (b'{"a":', "line 1, column 6"),
        (b'{"a":1,', "line 1, column 8"),
        (b'{"a":1,}', "member name in double quotes at line 1, column 8"),
        (b'{"a":1 "b":2}', "Expecting ',' at line 1, column 8"),
        (b'{"a":1,"\\u0061":2}', "same name at line 1, column 8"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "same name at line 1, column 19"),
        (b'{"a":1,"b":NaN}', "NaN and Infinity are not JSON at line 1, column 12"),
        (b"{1:2}", "member name in double quotes at line 1, column 2"),
    ],
)
def test_outer_levels_are_parsed_as_strictly_as_inner_ones(raw: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        parse_object(raw)
    assert caught.value.code == "invalid_json"


def test_each_member_keeps_its_exact_text() -> None:
    raw = '{ "type" : "a.b.c",\n "data":\t{ "é" : 1.0, "b":[1e2 ,2] } , "n":null}'.encode()
    members = parse_object(raw)
    assert {name: member.text for name, member in members.items()} == {
        "type": '"a.b.c"',
        "data": '{ "é" : 1.0, "b":[1e2 ,2] }',
        "n": "null",
    }
    assert members["data"].value == {"é": 1.0, "b": [100.0, 2]}
    assert members["data"].members is None


def test_a_batch_keeps_the_text_of_each_events_members() -> None:
    raw = b'{"events": [ {"type":"a.b.c","data": {"x": 1.50}} , 7, {"data":[ ]} ],"n":[1]}'
    members = parse_with_text(raw, levels=3).members
    assert members is not None
    first, second, third = members["events"].elements or ()
    assert first.text == '{"type":"a.b.c","data": {"x": 1.50}}'
    assert first.members is not None
    assert first.members["data"].text == '{"x": 1.50}'
    assert second.members is None
    assert (second.text, second.value) == ("7", 7)
    assert third.members is not None
    assert third.members["data"].text == "[ ]"


def check_sources(source: ParsedJson) -> None:
    """Check that every text parses to its value, and that the parts are those of the value."""
    assert as_decimals(source.text) == repr(source.value)
    assert source.text == source.text.strip()
    if source.members is not None:
        assert {name: member.value for name, member in source.members.items()} == source.value
        for member in source.members.values():
            check_sources(member)
    if source.elements is not None:
        assert [element.value for element in source.elements] == source.value
        for element in source.elements:
            check_sources(element)


@given(raw=written)
def test_accepted_json_has_the_value_of_json_loads(raw: bytes) -> None:
    assert repr(parse(raw)) == as_decimals(raw)


@given(raw=written, levels=st.integers(0, 4))
def test_the_text_of_each_part_parses_to_its_value(raw: bytes, levels: int) -> None:
    source = parse_with_text(raw, levels=levels)
    assert repr(source.value) == as_decimals(raw)
    check_sources(source)


pieces = rb"""
    { } [ ] , : " \ "a" "b": 1 - e9 . \u \ud83d \ude00 0000 NaN -Infinity 1e999 true null
""".split()
pieces += [b" ", b"\n", b"\xff", b"\xc3\xa9", b"\0", b"[" * 70, b"]" * 70, b"9" * 4400]
nearly_json = st.lists(st.sampled_from(pieces), max_size=12).map(b"".join)


def rejection(raw: bytes, levels: int) -> tuple[bool, object]:
    try:
        return True, parse_with_text(raw, levels=levels).value
    except InvalidInput as error:
        return False, error.code


@given(raw=st.binary(max_size=30) | nearly_json)
@example(b'"\\')
@example(b'{"a":1,"a')
@example(b'[\\"' + b"[" * 70)
def test_any_bytes_are_parsed_or_raise_invalid_input_on_every_level(raw: bytes) -> None:
    accepted, value = rejection(raw, levels=0)
    assert repr(rejection(raw, levels=2)) == repr((accepted, value))
    if accepted:
        assert from_text(raw) == value
        # every database and every parser of UTF-8 JSON can read accepted JSON
        text = to_text(value)
        assert b"\0" not in text.encode()
        assert "\\u0000" not in text.replace("\\\\", "")


@given(raw=written, place=st.floats(0, 1, exclude_max=True), new=st.binary(max_size=3))
def test_a_mistake_in_valid_json_raises_only_invalid_input(
    raw: bytes, place: float, new: bytes
) -> None:
    at = int(len(raw) * place)
    changed = raw[:at] + new + raw[at + 1 :]
    assert repr(rejection(changed, levels=3)) == repr(rejection(changed, levels=0))


def test_the_position_is_omitted_when_it_takes_too_long_to_find() -> None:
    raw = b"[" + b"1," * 250_000 + b"1e999]"
    assert fault(raw) == (
        "a member name is repeated, or a number is out of range; correct it and send it again"
    )
