"""JSON Schemas (2020-12), compiled and applied to data in bounded time. Pure.

The validator is jsonschema-rs. It takes `Decimal` and integers of any size, and nanoseconds for a
keyword and a value; but it cannot be interrupted, and other threads wait for it. So a schema has
limits when it is compiled, and the data to which it is applied have one when they are checked. Some
keywords are applied by `hookfast.events.schema_keywords`.

`hookfast.storage.events.schemas` applies schemas to events; `api.forms.json_schema` says which are
accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

from jsonschema_rs import Draft202012Validator, ValidationError

from hookfast.events.pattern import InvalidPattern
from hookfast.events.schema_keywords import (
    MAX_PLACES,
    Pattern,
    TooSlow,
    engine_for,
    keywords,
    within_budget,
)
from hookfast.events.schema_work import Endless, TooMuchWork, work_of
from hookfast.events.subschemas import (
    REFERENCES,
    SINGLE,
    Ambiguous,
    Path,
    Subschemas,
    Unresolvable,
)
from hookfast.strict_json.numbers import MAX_DIGITS, read_decimal
from hookfast.strict_json.text import to_text

MAX_PATTERN: Final = 500
"""Characters of a regular expression."""
_MAX_PATTERNS: Final = 100_000
"""Size of all patterns of a schema: these take half a second and 200 MB to compile."""
_MAX_CHECKED: Final = 100_000_000
"""Work of the schema for one value, times the amount of data: about a second."""
_MOST_EXPONENT: Final = 1_000_000
"""The validator counts no further, either."""
_MAX_RULE: Final = 120
"""Characters of a rule in an error."""
_MAX_LISTED: Final = 40_000
"""Errors that data could have. The validator lists all errors or one, in 25 µs each: at most about
a second."""

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Patterns are checked when the schema is compiled, by the dialect that they will be read in.
_META_SCHEMA: Final = Draft202012Validator(
    {"$ref": DIALECT},
    offline=True,
    validate_formats=True,
    formats={"regex": lambda _: True},
)


class InvalidSchema(ValueError):
    """A schema cannot be applied: where in it, and why."""

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        super().__init__(reason)
        self.path = tuple(path)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Violation:
    """Where data breaks a rule of its schema, and which, without the data."""

    path: Path
    detail: str


class CompiledSchema:
    """A schema that can be applied to data. `format` is an annotation (Validation, section 7.2.1),
    and so is `$schema`."""

    def __init__(self, schema: dict[str, Any] | bool) -> None:
        """Compile a schema that its metaschema allows. Raises InvalidSchema."""
        schema = plain(schema)
        try:
            parts = Subschemas(schema)
        except Ambiguous as found:
            raise InvalidSchema(found.path, "this name occurs twice; change one of them") from None
        for path, target in parts.elsewhere:
            check_meta(target, path)
        _check_references(parts)
        patterns = _patterns(parts)
        try:
            self._work = work_of(schema, parts, patterns)
        except TooMuchWork:
            raise InvalidSchema(
                (), "checking one value could take too long: too many subschemas apply to it"
            ) from None
        except Endless as endless:
            raise InvalidSchema(
                endless.path, "the schema refers to itself without end, for the same value"
            ) from None
        self._has_branches = any("anyOf" in one or "oneOf" in one for one in parts.all)
        self._slow_names = [
            patterns[name]
            for one in parts.all
            for name in one.get("patternProperties", ())
            if patterns[name].is_costly
        ]
        self._schema = _for_validator(schema, parts, patterns)
        try:
            self._validator = Draft202012Validator(
                self._schema,
                offline=True,
                validate_formats=False,
                pattern_options=engine_for(
                    backtracks=any(each.translated.backtracks for each in patterns.values())
                ),
                keywords=keywords(patterns),
            )
        except ValidationError as error:
            raise InvalidSchema(error.instance_path, error.message) from error

    def violations(self, data: Any, *, most: int) -> list[Violation]:
        """Return the first rules that data breaks. Of very much data, it is only the first, or just
        that it breaks one. Raises TooSlow if it is not known whether it does."""
        try:
            return self._violations(data, most=most)
        except ValueError:  # it has what the validator does not take, which is rare
            return self._violations(plain(data), most=most)

    def _violations(self, data: Any, *, most: int) -> list[Violation]:
        size = _measure(data)
        per_value = self._work.at(size.depth)
        if per_value is None or size.amount * per_value.work > _MAX_CHECKED:
            raise TooSlow
        if self._slow_names:
            with within_budget():
                self._try_names(data)
        with within_budget():
            if self._validator.is_valid(data):
                return []
        with within_budget():
            errors_at_most = size.values * per_value.keywords + size.objects * per_value.names
            if errors_at_most <= _MAX_LISTED:
                errors = self._validator.iter_errors(data)
                return [self._violation(error) for error in islice(errors, most)]
            if self._has_branches:  # the error of one contains those of all its branches
                return [Violation((), "does not match the schema; it is too much to say where")]
            try:
                self._validator.validate(data)
            except ValidationError as error:
                return [self._violation(error)]
        return []

    def _try_names(self, data: Any) -> None:
        """Search all names for the patterns that can be slow, to find out whether they are: within
        `not` or `anyOf`, the validator takes a search that it breaks off for one without result."""
        if isinstance(data, dict):
            for name in data:
                for pattern in self._slow_names:
                    pattern.found_in(name)
        if isinstance(data, dict | list):
            for value in data.values() if isinstance(data, dict) else data:
                self._try_names(value)

    def _violation(self, error: ValidationError) -> Violation:
        path = tuple(error.instance_path)
        keyword = error.schema_path[-1] if error.schema_path else None
        try:
            rule: Any = self._schema
            for part in error.schema_path:
                rule = rule[part]
        except LookupError:  # the validator leaves out empty names
            return Violation(path, f'does not satisfy the schema\'s "{keyword}"')
        if rule is False and keyword not in SINGLE:
            return Violation(path, "the schema allows nothing here")
        text = to_text({str(keyword): rule}, layout="spaced")[1:-1]
        if len(text) > _MAX_RULE:
            text = f"{text[:_MAX_RULE]}…"
        return Violation(path, f"does not satisfy the schema's {text}")


def check_meta(schema: Any, path: Path = ()) -> None:
    """Raise InvalidSchema if the metaschema does not allow this schema, which is at `path`."""
    for error in _META_SCHEMA.iter_errors(schema):
        at = (*path, *error.instance_path)
        if error.kind.name == "format":
            raise InvalidSchema(at, f"must be a valid {error.kind.value}")
        raise InvalidSchema(at, f"breaks the rule {error.kind.name!r} of JSON Schema")


def plain(value: Any) -> Any:
    """Return a copy of a JSON value that the validator takes: without subclasses of Decimal, which
    may write a number in another way, and with the replacement character for each half of a
    surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Decimal):
        text = str(value)
        if len(text) > MAX_DIGITS and text.lstrip("-").isdecimal():
            text = f"{text}.0"  # or errors would have it as an `int`, which Python does not write
        return read_decimal(text, most_exponent=_MOST_EXPONENT)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    return value


def _check_references(parts: Subschemas) -> None:
    for one in parts.all:
        path = parts.paths[id(one)]
        for name in REFERENCES:
            if name not in one:
                continue
            try:
                target = parts.resolve(one[name], within=one)
            except Unresolvable:
                raise InvalidSchema(
                    (*path, name),
                    "this reference points to nothing in the schema; it must stay inside, e.g."
                    " '#/$defs/item', because nothing is fetched",
                ) from None
            if not isinstance(target, dict | bool):
                raise InvalidSchema((*path, name), "this reference points to no schema")


def _patterns(parts: Subschemas) -> dict[str, Pattern]:
    """Return all patterns, compiled. Raises InvalidSchema."""
    found: dict[str, Pattern] = {}
    size = 0
    for pattern, path in _places_of_patterns(parts):
        if pattern in found:
            continue
        if len(pattern) > MAX_PATTERN:
            raise InvalidSchema(path, f"a regular expression has at most {MAX_PATTERN} characters")
        try:
            found[pattern] = Pattern(pattern)
        except InvalidPattern as error:
            raise InvalidSchema(path, f"not an ECMA-262 regular expression: {error}") from None
        if found[pattern].translated.places > MAX_PLACES:
            raise InvalidSchema(
                path,
                f"a regular expression has at most {MAX_PLACES} characters when its repeats are"
                " written out; use `maxLength`",
            )
        size += found[pattern].translated.size
        if size > _MAX_PATTERNS:
            raise InvalidSchema(
                path,
                "with this one, the regular expressions of the schema are too large; use fewer or"
                " shorter repeats, above all of `\\p{…}`",
            )
    for pattern, path in _places_of_patterns(parts):
        try:
            found[pattern].compile()
        except ValidationError:
            raise InvalidSchema(
                path, "this regular expression is too large, or uses what is not supported"
            ) from None
    return found


def _places_of_patterns(parts: Subschemas) -> Iterator[tuple[str, Path]]:
    for one in parts.all:
        path = parts.paths[id(one)]
        if "pattern" in one:
            yield one["pattern"], (*path, "pattern")
        for pattern in one.get("patternProperties", ()):
            yield pattern, (*path, "patternProperties", pattern)


def _for_validator(value: Any, parts: Subschemas, patterns: Mapping[str, Pattern]) -> Any:
    """Return a copy of a schema with the patterns of names translated, and without `$schema`."""
    if isinstance(value, list):
        return [_for_validator(one, parts, patterns) for one in value]
    if not isinstance(value, dict):
        return value
    copied = {name: _for_validator(one, parts, patterns) for name, one in value.items()}
    if id(value) in parts.paths:
        copied.pop("$schema", None)
        if "patternProperties" in copied:
            copied["patternProperties"] = _with_translated_names(
                copied["patternProperties"], patterns
            )
    return copied


def _with_translated_names(
    schemas: Mapping[str, Any], patterns: Mapping[str, Pattern]
) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for pattern, schema in schemas.items():
        name = patterns[pattern].translated.text
        while name in named:  # `\d` and `[0-9]` are the same to the engine
            name = f"(?:{name})"
        named[name] = schema
    return named


class _Size(NamedTuple):
    values: int
    """With the names of members."""
    objects: int
    amount: int
    """How much work it is to check: one for each value, and for every fourth character."""
    depth: int


def _measure(data: Any) -> _Size:
    values = objects = characters = 0
    depth, level = -1, [data]
    while level:
        depth += 1
        values += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                characters += len(one)
            elif isinstance(one, dict):
                objects += 1
                values += len(one)
                characters += sum(map(len, one))
                below += one.values()
            elif isinstance(one, list):
                below += one
        level = below
    return _Size(values, objects, values + characters // 4, depth)
