"""Parse application/x-www-form-urlencoded bodies as the WHATWG URL Standard does (section 5.1).

Every body is a form: empty fields are skipped, a name needs no value, an invalid escape stays as it
is, and bytes that are not a character become U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.text import to_text
from hookfast.strict_json.tolerant import Reading, read

FORM: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = 10_000
"""Most fields of a form. An unverified sender may send 5 MB, and each field costs memory."""
_PIECE = re.compile(rb"(?:%[0-9A-Fa-f]{2}|.){1,4096}+", re.DOTALL)  # never splits an escape


def raw_pairs(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the form's fields in order, unescaped but not decoded. Raises InvalidInput
    (`invalid_form`) for more than MAX_FIELDS fields."""
    if body.count(b"&") >= MAX_FIELDS:
        raise InvalidInput.at(
            "", f"the form has more than {MAX_FIELDS:,} fields", code="invalid_form"
        )
    for field in body.split(b"&"):
        if field:
            name, _, value = field.partition(b"=")
            yield _unescaped(name), _unescaped(value)


def form_pairs(body: bytes, *, encoding: str | None = None) -> list[tuple[str, str]]:
    """Return the form's fields in order, in UTF-8 or another encoding that extends ASCII. Raises
    InvalidInput as `raw_pairs` does."""
    codec = encoding if encoding and not encoding.startswith(("utf_16", "utf_32")) else "utf-8"
    return [
        (name.decode(codec, "replace"), value.decode(codec, "replace"))
        for name, value in raw_pairs(body)
    ]


def form_object(body: bytes, *, encoding: str | None = None) -> dict[str, JsonValue]:
    """Return the form as an object. A repeated field becomes a list of its values."""
    fields: dict[str, JsonValue] = {}
    for name, value in form_pairs(body, encoding=encoding):
        if name not in fields:
            fields[name] = value
            continue
        earlier = fields[name]
        if isinstance(earlier, list):
            earlier.append(value)
        else:
            fields[name] = [earlier, value]
    return fields


def read_form(body: bytes, *, encoding: str | None, json_field: str | None) -> Reading:
    """Return the form as JSON: what its field `json_field` contains, if that is JSON, else the
    object of its fields."""
    fields = form_object(body, encoding=encoding)
    text = fields.get(json_field) if json_field is not None else None
    if isinstance(text, str):
        try:
            return read(text.encode())
        except InvalidInput:
            pass  # not the provider's envelope after all: the form itself is the payload
    return Reading(fields, to_text(fields))


def _unescaped(text: bytes) -> bytes:
    """Decode as `urllib.parse.unquote_plus`, but in pieces: it needs 230 bytes of memory for each
    escape, and an unverified sender may send a form of 5 MB that consists of escapes."""
    pieces = _PIECE.finditer(text.replace(b"+", b" "))
    return b"".join(unquote_to_bytes(piece[0]) for piece in pieces)
