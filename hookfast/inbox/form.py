"""Bodies that are HTML forms (application/x-www-form-urlencoded), read as strictly as JSON."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import JsonValue, parse

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MAX_FIELDS = 1000
# no escape is cut in two
_PIECE = re.compile(r"(?:%[0-9A-Fa-f]{2}|.){1,4096}+", re.DOTALL)


def form_pairs(body: bytes) -> list[tuple[str, str]]:
    """The fields in their order, empty ones too. Raises InvalidInput (`invalid_form`) unless it is
    ASCII whose escapes are UTF-8, without NUL (PostgreSQL has no such character)."""
    try:
        fields = body.decode("ascii").split("&", MAX_FIELDS) if body else []
        if len(fields) > MAX_FIELDS:
            raise ValueError
        pairs = [_pair(field) for field in fields]
    except ValueError:  # UnicodeDecodeError is one
        raise _invalid(
            f"the form is malformed, not UTF-8, or has more than {MAX_FIELDS} fields"
        ) from None
    if any("\0" in text for pair in pairs for text in pair):
        raise _invalid("the form holds the character NUL; remove it")
    return pairs


def form_object(body: bytes) -> dict[str, JsonValue]:
    """The form as an object. A field that comes several times is a list of its values."""
    fields: dict[str, JsonValue] = {}
    for name, value in form_pairs(body):
        if name not in fields:
            fields[name] = value
            continue
        before = fields[name]
        if isinstance(before, list):
            before.append(value)
        else:
            fields[name] = [before, value]
    return fields


def json_field(body: bytes, name: str) -> JsonValue:
    """The JSON in a form's field. Raises InvalidInput when the field is missing or there twice, or
    is not JSON."""
    values = [value for field, value in form_pairs(body) if field == name]
    if len(values) != 1:
        raise _invalid(f"the form must have the field {name!r} exactly once")
    return parse(values[0].encode())


def _pair(field: str) -> tuple[str, str]:
    name, mark, value = field.partition("=")
    if not mark:
        raise ValueError
    return _unescaped(name), _unescaped(value)


def _unescaped(text: str) -> str:
    """As `urllib.parse.unquote_plus`, a piece at a time: that takes 230 bytes for each escape, and
    a form of 5 MB may be nothing else, of somebody who is not verified yet."""
    pieces = _PIECE.finditer(text.replace("+", " "))
    return b"".join(unquote_to_bytes(piece[0]) for piece in pieces).decode()


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput.at("", detail, code="invalid_form")
