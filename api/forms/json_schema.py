"""Validation of the JSON Schemas (2020-12) of event types: a schema must be valid, and checking
untrusted data with it must not fetch anything or take long."""

from __future__ import annotations

from typing import Any, Final

from hookfast.errors import InvalidInput, join_pointer
from hookfast.events.schema import DIALECT, CompiledSchema, InvalidSchema, check_meta, plain
from hookfast.strict_json.text import to_text

MAX_BYTES: Final = 65_536


def check_schema(schema: dict[str, Any] | bool, *, pointer: str = "/schema") -> None:
    """Raise InvalidInput, code `invalid_schema`, if events cannot be checked with this schema. It
    may take a second: call it in a thread."""
    if len(to_text(schema).encode()) > MAX_BYTES:
        raise _invalid(pointer, f"a schema has at most {MAX_BYTES} bytes")
    if isinstance(schema, dict) and str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
        raise _invalid(
            join_pointer(pointer, "$schema"),
            f"must be {DIALECT}, or left out; rewrite a schema of another draft, e.g."
            " `definitions` as `$defs`, and an array of `items` as `prefixItems`",
        )
    try:
        check_meta(plain(schema))
        CompiledSchema(schema)
    except InvalidSchema as error:
        raise _invalid(join_pointer(pointer, *error.path), error.reason) from None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_schema")
