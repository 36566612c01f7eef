"""Parse form bodies (application/x-www-form-urlencoded) as strictly as JSON."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import JsonValue, parse

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MAX_FIELDS = 1000
_PIECE = re.compile(r"(?:%[0-9A-Fa-f]{2}|.){1,4096}+", re.DOTALL)  # never splits an escape


def form_pairs(body: bytes) -> list[tuple[str, str]]:
    """Return the form's fields in order, including empty ones. Raises InvalidInput (`invalid_form`)
    unless the body is ASCII and its escapes UTF-8 without NUL, which PostgreSQL cannot store."""
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
        raise _invalid("the form contains the character NUL; remove it")
    return pairs


def form_object(body: bytes) -> dict[str, JsonValue]:
    """Return the form as an object. A repeated field becomes a list of its values."""
    fields: dict[str, JsonValue] = {}
    for name, value in form_pairs(body):
        if name not in fields:
            fields[name] = value
            continue
        earlier = fields[name]
        if isinstance(earlier, list):
            earlier.append(value)
        else:
            fields[name] = [earlier, value]
    return fields


def json_field(body: bytes, name: str) -> JsonValue:
    """Parse the JSON in one field of a form. Raises InvalidInput when the field is missing,
    repeated or not JSON."""
    values = [value for field, value in form_pairs(body) if field == name]
    if len(values) != 1:
        raise _invalid(f"the form must have the field {name!r} exactly once")
    return parse(values[0].encode())


def _pair(field: str) -> tuple[str, str]:
    name, separator, value = field.partition("=")
    if not separator:
        raise ValueError
    return _unescaped(name), _unescaped(value)


def _unescaped(text: str) -> str:
    """Decode as `urllib.parse.unquote_plus`, but in pieces: it needs 230 bytes of memory for each
    escape, and an unverified sender may send a form of 5 MB that consists of escapes."""
    pieces = _PIECE.finditer(text.replace("+", " "))
    return b"".join(unquote_to_bytes(piece[0]) for piece in pieces).decode()


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput.at("", detail, code="invalid_form")
