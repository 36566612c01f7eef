"""Bodies that are HTML forms (application/x-www-form-urlencoded), read as strictly as JSON."""

from __future__ import annotations

from urllib.parse import parse_qsl

from hookfast.errors import InvalidInput
from hookfast.json_text import JsonValue, parse

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MAX_FIELDS = 1000


def form_pairs(body: bytes) -> list[tuple[str, str]]:
    """The fields in their order, empty ones too. Raises InvalidInput (`invalid_form`) unless it is
    ASCII whose escapes are UTF-8, without NUL (PostgreSQL has no such character)."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
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


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput.at("", detail, code="invalid_form")
