"""Read the JSON of third parties, which is kept although the strict parser would refuse it. Pure.

One's own callers can correct what they send; a provider's signed request comes once. So a text is
read as strictly as ever, and only if that fails, as the readers of the web do: a byte order mark is
removed, of duplicate members the last counts, bytes that are no character become U+FFFD (WHATWG
Encoding, "UTF-8 decode"), and control characters in strings stand for themselves. NUL and lone
surrogates stay escapes in the text, and numbers keep all their digits. `text.from_text` reads the
result again.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hookfast.errors import InvalidInput
from hookfast.strict_json.fault import scanner_reason
from hookfast.strict_json.numbers import any_integer, any_number
from hookfast.strict_json.parser import JsonValue, is_too_deep, parse_with_text
from hookfast.strict_json.text import to_text

MAX_DEPTH: Final = 200
"""Deepest nesting that is read. Filters, mappings and schemas recurse a few times per level."""
NOT_STORABLE: Final = re.compile(r"[\0\ud800-\udfff]")
"""Characters that JSON can escape, and that no database stores in a column of text."""
_SPACE: Final = " \t\r\n"

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, and its JSON text as it is stored and delivered: as sent, unless other readers would
    read that differently or not at all."""

    value: JsonValue = field(repr=False)
    text: str = field(repr=False)


def read(raw: bytes, *, encoding: str | None = None) -> Reading:
    """Read a JSON text, in UTF-8 or the named encoding (a codec of Python) unless it has a byte
    order mark. Raises InvalidInput (`invalid_json`) if it cannot be read as JSON at all."""
    if encoding in (None, "utf-8"):
        try:
            source = parse_with_text(raw, levels=0)
            return Reading(source.value, source.text)
        except InvalidInput:
            pass
    first: InvalidInput | None = None
    for text in _decodings(raw, encoding):
        try:
            return _read(text.strip(_SPACE))
        except InvalidInput as error:
            first = first or error
    raise first or _invalid("it has no text")


def decode(raw: bytes, encoding: str | None, *, errors: str = "strict") -> str:
    """Decode text by its byte order mark, else the named encoding, else as UTF-8. Raises
    UnicodeDecodeError."""
    marked = next((codec for mark, codec in _MARKS if raw.startswith(mark)), None)
    return raw.decode(marked or encoding or "utf-8", errors)


def _decodings(raw: bytes, encoding: str | None) -> Iterator[str]:
    """Yield the texts that the bytes may be, the most likely first: in the named encoding, in the
    encoding that the first bytes of JSON show (RFC 4627, section 3), and with U+FFFD for wrong
    bytes."""
    named = encoding or "utf-8"
    damaged = False
    for codec in dict.fromkeys((named, json.detect_encoding(raw))):
        try:
            yield decode(raw, codec)
        except UnicodeDecodeError:
            damaged = damaged or codec == named
    if damaged:
        yield decode(raw, named, errors="replace")


def _read(text: str) -> Reading:
    if is_too_deep(text.encode(), MAX_DEPTH):
        raise _invalid(f"it nests deeper than {MAX_DEPTH} levels")
    try:
        value, unique = _parse(text, strict=True)
    except json.JSONDecodeError:
        value, unique = _parse_loosely(text)
    return Reading(value, text if unique else to_text(value))


def _parse_loosely(text: str) -> tuple[Any, bool]:
    """Parse a text with control characters in its strings, which has to be rewritten."""
    try:
        return _parse(text, strict=False)[0], False
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _invalid(f"{scanner_reason(error)} at {where}") from None


def _parse(text: str, *, strict: bool) -> tuple[Any, bool]:
    """Return the value, and whether no object in it has duplicate members."""
    unique = True

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal unique
        found = dict(pairs)
        unique = unique and len(found) == len(pairs)
        return found

    value = json.loads(
        text,
        strict=strict,
        object_pairs_hook=members,
        parse_float=any_number,
        parse_int=any_integer,
        parse_constant=_no_constant,
    )
    return value, unique


def _no_constant(name: str) -> None:
    raise _invalid(f"{name} is not JSON")


def _invalid(reason: str) -> InvalidInput:
    return InvalidInput.at("", f"the body is not JSON: {reason}", code="invalid_json")
