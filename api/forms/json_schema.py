"""Validation of the JSON Schemas (2020-12) of event types: a schema must be valid, and checking
untrusted data with it must not fetch anything or run without end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined] # see `_is_exponential`
from typing import Any

import regex
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from api.answers.json_pointer import join
from hookfast.errors import InvalidInput
from hookfast.events.schema import BoundedSchema, Budget, OverBudget, compiled
from hookfast.strict_json.text import to_text

MAX_BYTES = 65_536
MAX_PATTERN = 500
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_REFERENCES = ("$ref", "$dynamicRef")
_DATA = frozenset({"const", "enum", "default", "examples"})  # their values are not schemas
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


_SECONDS = 0.5
_META_SCHEMA = BoundedSchema(
    Draft202012Validator.META_SCHEMA, formats=Draft202012Validator.FORMAT_CHECKER
)


def check_schema(schema: dict[str, Any] | bool, *, pointer: str = "/schema") -> None:
    """Raise InvalidInput, code `invalid_schema`, if events cannot be checked with this schema. It
    may take a second: call it in a thread."""
    if len(to_text(schema, layout="spaced").encode()) > MAX_BYTES:
        raise _invalid(pointer, f"a schema has at most {MAX_BYTES} bytes")
    budget = Budget(_SECONDS)
    try:
        errors = _META_SCHEMA.errors(schema, budget, most=1)
    except (RecursionError, OverflowError):
        raise _invalid(
            pointer, "the schema is nested too deeply or has too large numbers"
        ) from None
    except OverBudget:
        raise _invalid(pointer, "the schema takes too long to validate; simplify it") from None
    for error in errors:
        at = join(pointer, *error.absolute_path)
        if error.validator == "format":
            raise _invalid(at, f"must be a valid {error.validator_value}")
        raise _invalid(at, f"breaks the rule {error.validator!r} of JSON Schema")
    if isinstance(schema, dict) and schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise _invalid(join(pointer, "$schema"), f"must be {DIALECT}, or left out")
    _check_parts(schema, pointer=pointer)
    _check_applicable(schema, pointer=pointer)


def _check_parts(schema: dict[str, Any] | bool, *, pointer: str) -> None:
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for at, name, value in _keywords(schema, pointer):
        if name == "$id" and at != join(pointer, "$id"):
            raise _invalid(at, "only the schema itself may have an $id")
        if name in _REFERENCES and isinstance(value, str):
            if not value.startswith("#"):
                raise _invalid(at, "a reference must stay inside the schema, e.g. '#/$defs/item'")
            try:
                resolver.lookup(value)
            except Unresolvable:
                raise _invalid(at, "this reference points to nothing in the schema") from None
        if name == "pattern" and isinstance(value, str):
            _check_pattern(value, at)
        if name == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _check_pattern(pattern, at)


def _keywords(schema: Any, pointer: str) -> Iterator[tuple[str, str, Any]]:
    """Yield every keyword of the schema and its sub-schemas: pointer, name, value."""
    if isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _keywords(value, join(pointer, index))
    elif isinstance(schema, dict):
        for name, value in schema.items():
            at = join(pointer, name)
            yield at, name, value
            if name in _MAPS and isinstance(value, dict):
                for key, sub_schema in value.items():
                    yield from _keywords(sub_schema, join(at, key))
            elif name not in _DATA:
                yield from _keywords(value, at)


def _check_applicable(schema: dict[str, Any] | bool, *, pointer: str) -> None:
    """Apply the schema to one value of each kind: a schema that refers to itself without descending
    into the data would never end."""
    rules, budget = BoundedSchema(schema), Budget(_SECONDS)
    try:
        samples: tuple[Any, ...] = ({}, [], "", 0, True, None)
        for value in samples:
            rules.errors(value, budget, most=1)
    except (RecursionError, Unresolvable):
        raise _invalid(
            pointer, "the schema refers to itself without end, or to something that is missing"
        ) from None
    except OverBudget:
        raise _invalid(pointer, "the schema takes too long to apply to empty data") from None


_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def _check_pattern(pattern: str, pointer: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise _invalid(pointer, f"a regular expression has at most {MAX_PATTERN} characters")
    try:
        parsed = _parser.parse(pattern)
        compiled(pattern)
    except (re.error, regex.error, OverflowError, RecursionError):
        raise _invalid(pointer, "not a valid regular expression of Python") from None
    if _is_exponential(parsed, inside_repeat=False):
        raise _invalid(pointer, "a repeat inside a repeat can take forever; rewrite it without")


def _is_exponential(parsed: Any, *, inside_repeat: bool) -> bool:
    """Whether an unbounded repeat contains another with no fixed text to separate them, like
    `(a+)+` and unlike `(a+,)+`: the usual cause of exponential time in a backtracking matcher. This
    is no proof. It reports the mistake early; other slow patterns run into the time limit of a
    check.

    The standard library's parser is private, but parses exactly what its matcher will run.
    """
    separated = any(operator is _constants.LITERAL for operator, _ in parsed)
    for operator, argument in parsed:
        unbounded = operator in _REPEATS and argument[1] == _constants.MAXREPEAT
        if unbounded and inside_repeat and not separated:
            return True
        inside = unbounded or (inside_repeat and not separated)
        if any(_is_exponential(part, inside_repeat=inside) for part in _sub_patterns(argument)):
            return True
    return False


def _sub_patterns(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _sub_patterns(part)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_schema")
