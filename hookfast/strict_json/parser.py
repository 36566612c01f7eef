"""Parse JSON strictly: RFC 8259 without the parts on which parsers disagree. Pure.

All JSON that the API accepts is parsed here. Beyond RFC 8259 it rejects: a byte order mark,
duplicate member names, lone surrogates (RFC 7493, I-JSON), numbers that do not fit a double or are
closer to zero than 1e-9999, integers of more than 4300 digits, `\\u0000` (PostgreSQL cannot store
it), and nesting deeper than the limit. Errors are InvalidInput (`invalid_json`) and say what is
wrong, where (line and column, counted from 1), and what to do; they never contain a part of the
body.

Numbers are exact, and keep their digits as written (`numbers`). Each byte is parsed once, by the C
scanner of the standard library. `parse_with_text` also keeps the position of the values on the
outer levels, so that an event's data can be stored as sent.
"""

from __future__ import annotations

import json
import re
from array import array
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate
from typing import Any, TypeAlias

from hookfast.errors import InvalidInput
from hookfast.strict_json.fault import DUPLICATE, Fault, find_fault, scanner_reason
from hookfast.strict_json.numbers import strict_integer, strict_number

JsonValue: TypeAlias = "bool | int | Decimal | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, eq=False)
class ParsedJson:
    """A value and the text from which it was parsed.

    `members` (of an object) and `elements` (of an array) are set on the requested levels. They are
    None below those levels, and for all other values.
    """

    value: Any
    document: str
    start: int
    end: int
    members: dict[str, ParsedJson] | None = None
    elements: tuple[ParsedJson, ...] | None = None

    @property
    def text(self) -> str:
        """The exact text of the value, without surrounding white space."""
        return self.document[self.start : self.end]


def parse(raw: bytes, *, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Return the value of a JSON text."""
    value: JsonValue = parse_with_text(raw, levels=0, max_depth=max_depth).value
    return value


def parse_object(raw: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, ParsedJson]:
    """Return the members of a JSON object, each with its exact text."""
    members = parse_with_text(raw, levels=1, max_depth=max_depth).members
    if members is None:
        raise _invalid("the body must be a JSON object; wrap it in '{' and '}'")
    return members


def parse_with_text(raw: bytes, *, levels: int, max_depth: int = MAX_DEPTH) -> ParsedJson:
    """Return the value of a JSON text, with the text of the values on its outer `levels`.

    A batch `{"events": [{"data": …}]}` has three levels: the members of the body, the elements of
    `events`, and their members. `max_depth` counts every `[` and `{`; keep it below a few hundred,
    because the scanner recurses.
    """
    text = _decode(raw)
    if is_too_deep(raw, max_depth):
        raise _invalid(
            f"the JSON nests deeper than {max_depth} levels"
            f"{_at(text, find_fault(text, 0, max_depth=max_depth).position)}; flatten it"
        )
    start = _skip_space(text, 0)
    if start == len(text):
        raise _invalid("the body is empty; send a JSON value")
    try:
        decoder = _WITH_NEGATIVE_ZERO if _NEGATIVE_ZERO.search(text) else _DECODER
        source = _value(text, start, decoder, levels=levels)
        end = _skip_space(text, source.end)
        if end != len(text):
            raise json.JSONDecodeError("Unexpected text after the value", text, end)
    except json.JSONDecodeError as error:
        raise _invalid(
            f"the body is not JSON: {scanner_reason(error)}{_at(text, error.pos)}; correct it there"
        ) from None
    _reject_bad_escapes(text)
    return source


def _decode(raw: bytes) -> str:
    if raw.startswith(_BOM):
        raise _invalid("the body starts with a byte order mark; send UTF-8 without one")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _invalid(
            f"the body is not UTF-8 (byte {error.start + 1}); encode it as UTF-8"
        ) from None


def is_too_deep(raw: bytes, max_depth: int) -> bool:
    """Return whether brackets outside strings nest deeper than `max_depth`. Correct up to the first
    syntax error, where the scanner stops anyway."""
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return False
    # Without escapes, every second piece between quotes is outside strings. Only backslashes and
    # quotes matter, and runs of backslashes pair up from the left, as in the scanner.
    pieces = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    steps = b"".join(pieces[::2]).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(array("b", steps)), default=0) > max_depth


def _value(text: str, start: int, decoder: json.JSONDecoder, *, levels: int) -> ParsedJson:
    """Parse the value at `start`. Raises JSONDecodeError when it is not JSON, and InvalidInput for
    JSON that is rejected."""
    if levels and text.startswith("{", start):
        return _object(text, start, decoder, levels=levels)
    if levels and text.startswith("[", start):
        return _array(text, start, decoder, levels=levels)
    value, end = _scan(text, start, decoder)
    return ParsedJson(value, text, start, end)


def _object(text: str, start: int, decoder: json.JSONDecoder, *, levels: int) -> ParsedJson:
    members: dict[str, ParsedJson] = {}
    index = _skip_space(text, start + 1)
    if not text.startswith("}", index):
        while True:
            if not text.startswith('"', index):
                raise json.JSONDecodeError("Expecting a member name in double quotes", text, index)
            name, end = _scan(text, index, decoder)
            if name in members:
                raise _rejected(text, replace(DUPLICATE, position=index))
            index = _after(":", text, end)
            members[name] = member = _value(text, index, decoder, levels=levels - 1)
            end = _skip_space(text, member.end)
            if text.startswith("}", end):
                index = end
                break
            index = _after(",", text, end)
    value = {name: member.value for name, member in members.items()}
    return ParsedJson(value, text, start, index + 1, members=members)


def _array(text: str, start: int, decoder: json.JSONDecoder, *, levels: int) -> ParsedJson:
    elements: list[ParsedJson] = []
    index = _skip_space(text, start + 1)
    if not text.startswith("]", index):
        while True:
            elements.append(element := _value(text, index, decoder, levels=levels - 1))
            end = _skip_space(text, element.end)
            if text.startswith("]", end):
                index = end
                break
            index = _after(",", text, end)
    value = [element.value for element in elements]
    return ParsedJson(value, text, start, index + 1, elements=tuple(elements))


def _after(sign: str, text: str, index: int) -> int:
    """Skip white space and `sign`, and return the index of the next token."""
    index = _skip_space(text, index)
    if not text.startswith(sign, index):
        raise json.JSONDecodeError(f"Expecting {sign!r}", text, index)
    return _skip_space(text, index + 1)


def _skip_space(text: str, index: int) -> int:
    """Return the index of the next token, or the length of the text."""
    if text[index : index + 1] > " ":  # all white space of JSON sorts before
        return index
    token = _TOKEN_START.search(text, index)
    return token.start() if token else len(text)


def _scan(text: str, index: int, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """Parse the value at `index` with the C scanner. Return it and its end."""
    try:
        return decoder.raw_decode(text, index)
    except json.JSONDecodeError:
        raise
    except ValueError:  # from a hook below or int(), which do not know the position
        raise _rejected(text, find_fault(text, index)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _no_constant(_name: str) -> None:
    raise ValueError


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=strict_number, parse_constant=_no_constant
)
_WITH_NEGATIVE_ZERO = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=strict_number,
    parse_constant=_no_constant,
    parse_int=strict_integer,
)
"""Slower: a call for each integer. So it is used only where `_NEGATIVE_ZERO` may be one."""
_NEGATIVE_ZERO = re.compile(r"-0(?=[ \t\n\r,\]}]|\Z)")
_TOKEN_START = re.compile(r"[^ \t\n\r]")

_BOM = b"\xef\xbb\xbf"
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))

_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BAD_ESCAPE = re.compile(rf"(?P<nul>\\u0000)|{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")


def _reject_bad_escapes(text: str) -> None:
    """Reject the escapes `\\u0000` and lone surrogates in valid JSON. (Unescaped ones were rejected
    already: the control character by the scanner, the surrogate by the UTF-8 decoder.)"""
    if not any(start in text for start in ("\\u0000", "\\ud", "\\uD")):
        return
    # an escaped backslash must not look like the start of an escape
    found = _BAD_ESCAPE.search(text.replace("\\\\", "__"))
    if found is None:
        return
    position = _at(text, found.start())
    if found["nul"]:
        raise _invalid(f"the character \\u0000 is not accepted{position}; remove it")
    raise _invalid(f"unpaired surrogate{position}; send the complete character")


def _rejected(text: str, fault: Fault) -> InvalidInput:
    return _invalid(f"{fault.reason}{_at(text, fault.position)}; {fault.advice}")


def _at(text: str, position: int | None) -> str:
    """Return ` at line 2, column 7`, in characters counted from 1; nothing without a position."""
    if position is None:
        return ""
    line = text.count("\n", 0, position) + 1
    return f" at line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput.at("", detail, code="invalid_json")
