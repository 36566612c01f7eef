"""JSON Schema (2020-12) validation within a budget of time. Pure.

The validator is jsonschema's. Keywords that take more than linear time there, or that block the
interpreter, are replaced here, and each keyword checks the clock. So every check ends, whatever the
schema and the data are, and other threads run meanwhile.

`hookfast.storage.events.schemas` applies it to events; `api.forms.json_schema` says which schemas
are accepted.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from decimal import Context, Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

import regex
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from hookfast.strict_json.numbers import canonical

_CHECK_EVERY = 32
"""Keywords between two checks of the clock, because a check costs more than most keywords."""


class OverBudget(Exception):
    """The validation took too long. It is not known whether the data fits the schema."""


class Budget:
    """Seconds of processor time that the current thread may spend from now on. Other threads' time
    does not count."""

    __slots__ = ("_end", "_until_check")

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._until_check = _CHECK_EVERY

    def tick(self) -> None:
        """Count one small step. Raises OverBudget if the time is used up."""
        self._until_check -= 1
        if self._until_check <= 0:
            self.left()

    def left(self) -> float:
        """Return the seconds that are left. Raises OverBudget if none are."""
        self._until_check = _CHECK_EVERY
        left = self._end - time.thread_time()
        if left <= 0:
            raise OverBudget
        return left


class BoundedSchema:
    """A valid schema that is applied to data. With `formats`, the keyword `format` is checked;
    without, it is an annotation (Validation, section 7.2.1)."""

    def __init__(
        self, schema: Mapping[str, Any] | bool, *, formats: FormatChecker | None = None
    ) -> None:
        # an empty registry: the default one would fetch
        self._validator = _Validator(schema, registry=Registry(), format_checker=formats)

    def errors(self, data: Any, budget: Budget, *, most: int) -> list[ValidationError]:
        """Return the first errors, whose messages do not quote the data. Raises OverBudget, and
        jsonschema's errors if the schema cannot be applied."""
        token = _budget.set(budget)
        try:
            budget.left()
            return list(islice(self._validator.iter_errors(data), most))
        finally:
            _budget.reset(token)


_budget: ContextVar[Budget] = ContextVar("budget")

_Keyword: TypeAlias = "Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]"


def _found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises OverBudget."""
    try:
        # Unlike the standard library's `re`, this lets other threads run while it searches.
        return compiled(pattern).search(text, timeout=_budget.get().left()) is not None
    except TimeoutError:
        raise OverBudget from None


@lru_cache(maxsize=4_096)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern of the standard library's `re`, with the same meaning. Raises
    `regex.error`."""
    # in `re`, a brace before a letter is a brace; in `regex`, it begins a fuzzy match
    return regex.compile(_BRACE.sub(_escaped, pattern), regex.VERSION0)


_BRACE = re.compile(r"\\N\{|\\.|\{(?=[^0-9,])", re.DOTALL)


def _escaped(match: re.Match[str]) -> str:
    return r"\{" if match[0] == "{" else match[0]


def _pattern(_: Any, pattern: str, data: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(data, str) and not _found(pattern, data):
        yield ValidationError("does not match")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], data: Any, _: Any
) -> Iterator[ValidationError]:
    if isinstance(data, dict):
        for pattern, schema in patterns.items():
            for name, value in data.items():
                if _found(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, additional: Any, data: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(data, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name in data.keys() - schema.get("properties", {}).keys():
        if any(_found(pattern, name) for pattern in patterns):
            continue
        if additional is False:
            yield ValidationError("has other members")
            return
        yield from validator.descend(data[name], additional, path=name)


def _unique_items(_: Any, unique: Any, data: Any, __: Any) -> Iterator[ValidationError]:
    if not unique or not isinstance(data, list):
        return
    seen: set[str] = set()
    for item in data:
        text = _canonical(item)
        if text in seen:
            yield ValidationError("has equal items")
            return
        seen.add(text)


def _canonical(value: Any) -> str:
    """Return a text that is the same for two values exactly if they are equal in JSON Schema (Core,
    section 4.2.2): members have no order, 1 equals 1.0, and neither equals true."""
    _budget.get().tick()
    if isinstance(value, str):
        return f'"{len(value)}:{value}'
    if isinstance(value, dict):
        members = sorted((_canonical(name), _canonical(one)) for name, one in value.items())
        return "{" + "".join(name + one for name, one in members) + "}"
    if isinstance(value, list):
        return "[" + "".join(map(_canonical, value)) + "]"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{canonical(Decimal(value))},"
    return f"{value!r},"  # True, False, None


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    return bool(value == math.floor(value))


def _multiple_of(_: Any, divisor: Any, data: Any, __: Any) -> Iterator[ValidationError]:
    number = isinstance(data, int | float | Decimal) and not isinstance(data, bool)
    if number and _EXACT.remainder(Decimal(data), Decimal(divisor)):
        yield ValidationError("is no multiple")


_EXACT = Context(prec=20_000)  # more digits than any number's quotient by another has


def _any_of(validator: Any, schemas: Sequence[Any], data: Any, _: Any) -> Iterator[ValidationError]:
    if not any(_fits(validator, schema, data) for schema in schemas):
        yield ValidationError("fits none")


def _one_of(validator: Any, schemas: Sequence[Any], data: Any, _: Any) -> Iterator[ValidationError]:
    fitting = (None for schema in schemas if _fits(validator, schema, data))
    if len(list(islice(fitting, 2))) != 1:
        yield ValidationError("fits none, or more than one")


def _fits(validator: Any, schema: Any, data: Any) -> bool:
    """Whether the data fits the schema. It stops at the first error."""
    return next(validator.descend(data, schema), None) is None


def _unevaluated_items(
    validator: Any, unevaluated: Any, data: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(data, list):
        seen = _evaluated(validator, data, schema, _items_here)
        for index, item in enumerate(data):
            if index not in seen and not _fits(validator, unevaluated, item):
                yield ValidationError("has other items")
                return


def _unevaluated_properties(
    validator: Any, unevaluated: Any, data: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(data, dict):
        seen = _evaluated(validator, data, schema, _members_here)
        for name, value in data.items():
            if name not in seen and not _fits(validator, unevaluated, value):
                yield ValidationError("has other members")
                return


def _items_here(validator: Any, data: list[Any], schema: Mapping[str, Any]) -> Set[Any]:
    """Return the indexes that a schema's own keywords evaluate."""
    if "items" in schema or "unevaluatedItems" in schema:
        return set(range(len(data)))
    places = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        contained = schema["contains"]
        places |= {at for at, item in enumerate(data) if _fits(validator, contained, item)}
    return places


def _members_here(_: Any, data: dict[str, Any], schema: Mapping[str, Any]) -> Set[Any]:
    """Return the members that a schema's own keywords evaluate."""
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(data)
    patterns = schema.get("patternProperties", {})
    named: Mapping[str, Any] = schema.get("properties", {})
    return {
        name for name in data if name in named or any(_found(pattern, name) for pattern in patterns)
    }


def _evaluated(
    validator: Any,
    data: Any,
    schema: Any,
    here: Callable[[Any, Any, Mapping[str, Any]], Set[Any]],
    *,
    outermost: bool = True,
) -> set[Any]:
    """Return the items or members that the keywords beside an `unevaluated…` evaluate, and those of
    the schemas that apply in the same place and that the data fits (Core, section 11)."""
    _budget.get().tick()
    if isinstance(schema, bool):
        return set()
    if outermost:  # its own `unevaluated…` applies to what all others leave
        schema = {name: value for name, value in schema.items() if name not in _UNEVALUATED}
    seen = set(here(validator, data, schema))

    def add(sub_schema: Any) -> None:
        seen.update(_evaluated(validator, data, sub_schema, here, outermost=False))

    for reference in ("$ref", "$dynamicRef"):
        if reference in schema:
            resolved = validator._resolver.lookup(schema[reference])
            there = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            seen |= _evaluated(there, data, resolved.contents, here, outermost=False)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for sub_schema in schema.get(keyword, ()):
            if _fits(validator, sub_schema, data):
                add(sub_schema)
    if "if" in schema:
        if _fits(validator, schema["if"], data):
            add(schema["if"])
            add(schema.get("then", True))
        else:
            add(schema.get("else", True))
    if isinstance(data, dict):
        for name, sub_schema in schema.get("dependentSchemas", {}).items():
            if name in data:
                add(sub_schema)
    return seen


_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")


def _counted(keyword: _Keyword) -> _Keyword:
    def check(validator: Any, value: Any, data: Any, schema: Any) -> Any:
        _budget.get().tick()
        return keyword(validator, value, data, schema)

    return check


_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        name: _counted(keyword)
        for name, keyword in {
            **Draft202012Validator.VALIDATORS,
            "additionalProperties": _additional_properties,
            "anyOf": _any_of,
            "multipleOf": _multiple_of,
            "oneOf": _one_of,
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "unevaluatedItems": _unevaluated_items,
            "unevaluatedProperties": _unevaluated_properties,
            "uniqueItems": _unique_items,
        }.items()
    },
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


def _evolve(self: Any, **changes: Any) -> Any:
    """Copy a validator as jsonschema does, but never switch to its own for an inner `$schema`."""
    kept = {
        "registry": self._registry,
        "format_checker": self.format_checker,
        "_resolver": self._resolver,
        "schema": self.schema,
    }
    return _Validator(**kept | changes)


_Validator.evolve = _evolve
