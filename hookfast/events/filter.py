"""Content filters: conditions on an event's data, in the style of MongoDB's queries. Pure.

A condition applies to one value, which may be missing:

- A string, number, boolean or null must be equal to the value.
- An object is a list of conditions that must all hold. Its members whose names begin with `$` are
  operators on the value; the others are paths to members of the value (`customer.country`).
- A list must be contained: the value is an array with an element for each condition in the list.

An array is entered by itself: equality, comparisons and paths hold for it if they all hold for one
and the same element (or, for `$eq`, for the array itself). The other operators see it as a whole:
`$neq`, `$nin` and `$not` are the exact opposites of `$eq`, `$in` and their condition, so they hold
for an array without such an element, and for a missing member.

A path through something that is not an object leads to a missing member, as does a path through an
empty array. Values of different types are never equal and never in order; true is not 1. Numbers
are compared exactly: 1 equals 1.0, and 0.1 is less than 0.10000000000000000001. There are no
regular expressions, and an evaluation counts its steps, so its time is bounded whatever the filter
and the data are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

from hookfast.errors import InvalidInput, join_pointer
from hookfast.events.member_path import parse_path
from hookfast.strict_json.numbers import NUMBER_TYPES
from hookfast.strict_json.text import from_text, to_text

MAX_BYTES: Final = 8_192
"""Largest filter, in bytes of JSON."""
MAX_DEPTH: Final = 16
"""Deepest nesting of conditions."""
MAX_CONDITIONS: Final = 100
MAX_VALUES: Final = 200
"""Longest list of `$in`, `$nin`, `$startsWith` and `$endsWith`."""
MAX_STEPS: Final = 100_000
"""The most steps of one evaluation: less than 0.1 s. A step is one test of a value."""

_STRING_STEP = 256  # characters of a string that take about as long to search as a step
_CACHED = 2_048  # filters; one takes 4 KiB of memory when compiled, the largest 70 KiB


class OverLimit(Exception):
    """The evaluation would take more steps than it may. It is not known whether the data match."""


@dataclass(slots=True)
class Steps:
    """The number of steps that are left for evaluations."""

    left: int = MAX_STEPS

    def take(self, steps: int) -> None:
        """Count steps. Raises OverLimit if there are not so many left."""
        self.left -= steps
        if self.left < 0:
            raise OverLimit


@dataclass(frozen=True, slots=True)
class Filter:
    """A valid filter, compiled. Two are equal when their texts are."""

    text: str
    _test: _Test = field(repr=False, compare=False)

    def matches(self, data: Any, steps: Steps) -> bool:
        """Whether an event's data, as parsed by `strict_json`, match. Raises OverLimit."""
        return self._test(data, steps)


def parse_filter(value: object, *, pointer: str = "/filter") -> Filter:
    """Compile a filter, a JSON value as parsed by `strict_json`. Raises InvalidInput
    (`invalid_filter`)."""
    if not isinstance(value, dict):
        raise _invalid(pointer, 'a filter is a JSON object, e.g. {"amount": {"$gte": 100}}')
    text = filter_text(value)
    if len(text.encode()) > MAX_BYTES:
        raise _invalid(pointer, f"a filter has at most {MAX_BYTES} bytes as JSON; make it smaller")
    return Filter(text, _Compiler().condition(value, pointer, depth=0))


def filter_text(value: Mapping[str, Any]) -> str:
    """Return the JSON text of a filter, which `compiled` reads."""
    return to_text(value)


@lru_cache(maxsize=_CACHED)
def compiled(text: str) -> Filter:
    """Return the filter with this text, which was valid when it was stored. The last ones are kept
    compiled, because compiling takes about ten times as long as evaluating."""
    return parse_filter(from_text(text))


_Test: TypeAlias = Callable[[Any, Steps], bool]

_MISSING: Final = object()


# -- what a filter is compiled to


def _member(name: str, test: _Test) -> _Test:
    """Apply a test to a member of the value."""
    return lambda value, steps: test(
        value.get(name, _MISSING) if type(value) is dict else _MISSING, steps
    )


def _element(own: Sequence[_Test], members: Sequence[_Test]) -> _Test:
    """Whether all of these hold for the value, or for one element of the array: tests of the value
    itself and of its members."""
    tests = (*own, *members)
    first, others = tests[0], tests[1:]
    cost = len(tests)

    def check(value: Any, steps: Steps) -> bool:
        steps.take(cost)
        if type(value) is list and value:
            # of an array itself, only `$eq` can hold
            if not members and all(test(value, steps) for test in own):
                return True
            return any(check(each, steps) for each in value)
        # most events fail the first test, or there is no other: `all` would take longer
        return first(value, steps) and (not others or all(test(value, steps) for test in others))

    return check


def _all(tests: Sequence[_Test]) -> _Test:
    return tests[0] if len(tests) == 1 else _combined(all, tests)


def _combined(combine: Callable[[Iterable[bool]], bool], tests: Sequence[_Test]) -> _Test:
    def check(value: Any, steps: Steps) -> bool:
        steps.take(len(tests))
        return combine(test(value, steps) for test in tests)

    return check


def _not(test: _Test) -> _Test:
    return lambda value, steps: not test(value, steps)


def _contains_all(tests: Sequence[_Test]) -> _Test:
    def check(value: Any, steps: Steps) -> bool:
        if type(value) is not list:
            return False
        for test in tests:
            steps.take(len(value))
            if not any(test(each, steps) for each in value):
                return False
        return True

    return check


def _exists(expected: bool) -> _Test:
    return lambda value, _: (value is not _MISSING) is expected


def _equal_to(operand: Any) -> _Test:
    if isinstance(operand, bool) or operand is None:
        return lambda value, _: value is operand
    if isinstance(operand, str):
        return lambda value, _: bool(value == operand)
    if type(operand) in NUMBER_TYPES:
        return lambda value, _: type(value) in NUMBER_TYPES and bool(value == operand)
    return lambda value, steps: _equal(value, operand, steps)


def _equal(value: Any, operand: Any, steps: Steps) -> bool:
    """Whether two JSON values are equal. Objects have no order, and 1 equals 1.0, but not true."""
    steps.take(1)
    if type(operand) is dict:
        return (
            type(value) is dict
            and value.keys() == operand.keys()
            and all(_equal(value[name], each, steps) for name, each in operand.items())
        )
    if type(operand) is list:
        return (
            type(value) is list
            and len(value) == len(operand)
            and all(map(_equal, value, operand, repeat(steps)))
        )
    return (type(value) is bool) is (type(operand) is bool) and bool(value == operand)


def _one_of(operands: Sequence[Any]) -> _Test:
    texts = frozenset(each for each in operands if isinstance(each, str))
    numbers = frozenset(each for each in operands if type(each) in NUMBER_TYPES)
    constants = [each for each in operands if each is None or type(each) is bool]

    def check(value: Any, _: Steps) -> bool:
        kind = type(value)
        if kind is str:
            return value in texts
        if kind in NUMBER_TYPES:
            return value in numbers
        return any(value is each for each in constants)

    return check


def _compared(compare: Callable[[Any, Any], bool], operand: Any) -> _Test:
    if isinstance(operand, str):
        return lambda value, _: type(value) is str and compare(value, operand)
    return lambda value, _: type(value) in NUMBER_TYPES and compare(value, operand)


def _contains(operand: Any) -> _Test:
    equal = _element([_equal_to(operand)], [])

    def check(value: Any, steps: Steps) -> bool:
        if type(value) is str:
            steps.take(1 + len(value) // _STRING_STEP)
            return type(operand) is str and operand in value
        return type(value) is list and equal(value, steps)

    return check


_ORDER: Final = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_AFFIX: Final = {"$startsWith": str.startswith, "$endsWith": str.endswith}
OPERATORS: Final = (
    *("$eq", "$neq", *_ORDER, "$in", "$nin", "$exist", *_AFFIX, "$contains"),
    *("$and", "$or", "$not"),
)


# -- how it is compiled


class _Compiler:
    """Compiles one filter, and counts its conditions."""

    def __init__(self) -> None:
        self._conditions = 0

    def condition(self, value: Any, pointer: str, *, depth: int) -> _Test:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _invalid(pointer, f"a filter has at most {MAX_CONDITIONS} conditions")
        if depth > MAX_DEPTH:
            raise _invalid(pointer, f"a filter nests at most {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            return self._object(value, pointer, depth=depth)
        if isinstance(value, list):
            return _contains_all(
                self._list(value, pointer, depth=depth, or_else='; an empty array is {"$eq": []}')
            )
        return _element([_equal_to(value)], [])

    def _object(self, value: Mapping[str, Any], pointer: str, *, depth: int) -> _Test:
        if not value:
            raise _invalid(
                pointer, 'an empty object says nothing; {"$exist": true} asks whether it is there'
            )
        own: list[_Test] = []
        members: list[_Test] = []
        whole: list[_Test] = []
        for name, operand in value.items():
            at = join_pointer(pointer, name)
            if name.startswith("$") and not name.startswith("$$"):
                test, for_element = self._operator(name, operand, at, depth=depth)
                (own if for_element else whole).append(test)
            else:
                path = _path(name, at)
                test = self.condition(operand, at, depth=depth + len(path))
                for index, part in enumerate(reversed(path)):
                    test = _member(part, _element([], [test]) if index else test)
                members.append(test)
        if own or members:
            whole.append(_element(own, members))
        return _all(whole)

    def _operator(self, name: str, operand: Any, at: str, *, depth: int) -> tuple[_Test, bool]:
        """Return an operator's test, and whether it is about one element of an array."""
        match name:
            case "$eq":
                return _equal_to(operand), True
            case "$neq":
                return _not(_element([_equal_to(operand)], [])), False
            case "$in":
                return _one_of(_scalars(operand, at)), True
            case "$nin":
                return _not(_element([_one_of(_scalars(operand, at))], [])), False
            case "$exist":
                if not isinstance(operand, bool):
                    raise _invalid(at, "`$exist` takes true or false")
                return _exists(operand), False
            case "$contains":
                if isinstance(operand, dict | list):
                    raise _invalid(at, "`$contains` takes a string, a number, true, false or null")
                return _contains(operand), False
            case "$and":
                return _all(self._list(operand, at, depth=depth)), False
            case "$or":
                return _combined(any, self._list(operand, at, depth=depth)), False
            case "$not":
                return _not(self.condition(operand, at, depth=depth + 1)), False
        if name in _ORDER:
            if type(operand) not in NUMBER_TYPES and not isinstance(operand, str):
                raise _invalid(at, f"`{name}` takes a number or a string")
            return _compared(_ORDER[name], operand), True
        if name in _AFFIX:
            affixes, has = _affixes(name, operand, at), _AFFIX[name]
            return lambda value, _: type(value) is str and has(value, affixes), True
        raise _invalid(at, _unknown_operator(name))

    def _list(self, value: Any, at: str, *, depth: int, or_else: str = "") -> list[_Test]:
        if not isinstance(value, list) or not value:
            raise _invalid(at, f"must be a list of at least one condition{or_else}")
        return [
            self.condition(each, join_pointer(at, index), depth=depth + 1)
            for index, each in enumerate(value)
        ]


def _scalars(operand: Any, at: str) -> list[Any]:
    if not isinstance(operand, list) or not 0 < len(operand) <= MAX_VALUES:
        hint = "; `$contains` looks for a part of a string" if isinstance(operand, str) else ""
        raise _invalid(at, f"must be a list of 1 to {MAX_VALUES} values{hint}")
    for index, each in enumerate(operand):
        if isinstance(each, dict | list):
            raise _invalid(
                join_pointer(at, index),
                "must be a string, a number, true, false or null; for others use `$or` with `$eq`",
            )
    return operand


def _affixes(name: str, operand: Any, at: str) -> tuple[str, ...]:
    affixes = operand if isinstance(operand, list) else [operand]
    if not 0 < len(affixes) <= MAX_VALUES or not all(isinstance(each, str) for each in affixes):
        raise _invalid(at, f"`{name}` takes a string, or a list of 1 to {MAX_VALUES} strings")
    return tuple(affixes)


def _unknown_operator(name: str) -> str:
    close = difflib.get_close_matches(name, OPERATORS, n=1, cutoff=0.7)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return (
        f"unknown operator; {meant}the operators are {', '.join(OPERATORS)}. "
        "To name a member that begins with `$`, write `$$`"
    )


def _path(text: str, at: str) -> list[str]:
    try:
        return parse_path(text)
    except ValueError as error:
        raise _invalid(at, str(error)) from None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_filter")
