"""Validation of the JSON Schemas (2020-12) of event types: a schema must be valid, and checking
untrusted data with it must not fetch anything or take long."""

from __future__ import annotations

from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from api.answers.json_pointer import join
from hookfast.errors import InvalidInput
from hookfast.events.schema import CompiledSchema, InvalidSchema, plain
from hookfast.strict_json.text import to_text

MAX_BYTES: Final = 65_536
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Patterns are checked when the schema is compiled, by the dialect that they will be read in.
_META_SCHEMA: Final = Draft202012Validator(
    {"$ref": DIALECT},
    offline=True,
    validate_formats=True,
    formats={"regex": lambda _: True},
)


def check_schema(schema: dict[str, Any] | bool, *, pointer: str = "/schema") -> None:
    """Raise InvalidInput, code `invalid_schema`, if events cannot be checked with this schema. It
    may take a second: call it in a thread."""
    if len(to_text(schema).encode()) > MAX_BYTES:
        raise _invalid(pointer, f"a schema has at most {MAX_BYTES} bytes")
    if isinstance(schema, dict) and str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
        raise _invalid(
            join(pointer, "$schema"),
            f"must be {DIALECT}, or left out; rewrite a schema of another draft, e.g."
            " `definitions` as `$defs`, and an array of `items` as `prefixItems`",
        )
    for error in _META_SCHEMA.iter_errors(plain(schema)):
        at = join(pointer, *error.instance_path)
        if error.kind.name == "format":
            raise _invalid(at, f"must be a valid {error.kind.value}")
        raise _invalid(at, f"breaks the rule {error.kind.name!r} of JSON Schema")
    try:
        CompiledSchema(schema)
    except InvalidSchema as error:
        raise _invalid(join(pointer, *error.path), error.reason) from None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_schema")
