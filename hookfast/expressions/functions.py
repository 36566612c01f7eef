"""The functions of JMESPath, with exact numbers and arguments of the declared types only. Pure.

The library compares the names of Python's types, lets its operators decide what is equal, and lets
arguments pass that no type was checked for. Here a wrong type is always EvaluationFailed, which
names the function and what it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import chain, repeat
from typing import Any, Final

from jmespath.functions import Functions, signature

from hookfast.expressions.errors import EvaluationFailed
from hookfast.expressions.values import average, equal, in_range, kind_of, kinds_of, total
from hookfast.strict_json.numbers import WrittenNumber, strict_integer, strict_number
from hookfast.strict_json.text import to_text

FOR_EVENT: Final = " for this event"

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PHRASES: Final = {
    "array": "an array",
    "array-number": "an array of numbers",
    "array-string": "an array of strings",
    "boolean": "a boolean",
    "expref": "an expression",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def wrong_type(name: str, argument: Any, types: Sequence[str], *, when: str = "") -> str | None:
    """Return the sentence for an argument that is of none of the types, which the library's
    signatures have (`array-number`). None if it is of one, or if every type will do."""
    if not types or any(_is(argument, one) for one in types):
        return None
    expected = " or ".join(_PHRASES[one] for one in types)
    given = _PHRASES[kind_of(argument)]
    if isinstance(argument, list) and any(one.startswith("array-") for one in types):
        given = f"an array with {_elements(argument)}"
    return f"{name}() takes {expected}, and was given {given}{when}{_remedy(given, types)}"


class ExactFunctions(Functions):
    """The functions that an evaluation calls."""

    def _type_check(self, actual: Any, signature: Any, function_name: str) -> None:
        # the last parameter of a variadic function is that of all further arguments
        declared = chain(signature, repeat(signature[-1]))
        for argument, parameter in zip(actual, declared, strict=False):
            sentence = wrong_type(function_name, argument, parameter["types"], when=FOR_EVENT)
            if sentence is not None:
                raise EvaluationFailed(sentence)

    @signature({"types": []})
    def _func_type(self, arg: Any) -> str:
        return kind_of(arg)

    @signature({"types": []})
    def _func_to_string(self, arg: Any) -> str:
        return arg if isinstance(arg, str) else to_text(arg)

    @signature({"types": []})
    def _func_to_number(self, arg: Any) -> int | Decimal | None:
        """A number as it is, and a string that is one in JSON; null for all others."""
        if kind_of(arg) == "number":
            return arg  # type: ignore[no-any-return] # that is its kind
        written = _NUMBER.fullmatch(arg) if isinstance(arg, str) else None
        if written is None:
            return None
        try:
            return strict_number(arg) if any(written.groups()) else strict_integer(arg)
        except ValueError:  # out of the range that JSON may have here
            return None

    @signature({"types": ["array", "string"]}, {"types": []})
    def _func_contains(self, subject: Any, search: Any) -> bool:
        if isinstance(subject, str):
            return isinstance(search, str) and search in subject
        return any(equal(one, search) for one in subject)

    @signature({"types": ["number"]})
    def _func_abs(self, arg: Any) -> Any:
        if isinstance(arg, Decimal):
            return WrittenNumber(str(arg).removeprefix("-"), arg.copy_abs())
        return abs(arg)

    @signature({"types": ["number"]})
    def _func_ceil(self, arg: Any) -> Any:
        return _calculated("ceil", lambda: math.ceil(in_range(arg)))

    @signature({"types": ["number"]})
    def _func_floor(self, arg: Any) -> Any:
        return _calculated("floor", lambda: math.floor(in_range(arg)))

    @signature({"types": ["array-number"]})
    def _func_sum(self, arg: Any) -> Any:
        return _calculated("sum", lambda: total(arg))

    @signature({"types": ["array-number"]})
    def _func_avg(self, arg: Any) -> Any:
        return _calculated("avg", lambda: average(arg)) if arg else None

    @signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_sort_by(self, array: Any, expref: Any) -> Any:
        keys = _keys("sort_by", array, expref)
        return [array[index] for index in sorted(range(len(array)), key=keys.__getitem__)]

    @signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_min_by(self, array: Any, expref: Any) -> Any:
        keys = _keys("min_by", array, expref)
        return array[min(range(len(array)), key=keys.__getitem__)] if array else None

    @signature({"types": ["array"]}, {"types": ["expref"]})
    def _func_max_by(self, array: Any, expref: Any) -> Any:
        keys = _keys("max_by", array, expref)
        return array[max(range(len(array)), key=keys.__getitem__)] if array else None


def _is(argument: Any, declared: str) -> bool:
    kind, _, of = declared.partition("-")
    return kind_of(argument) == kind and (not of or kinds_of(argument) <= {of})


def _keys(name: str, array: list[Any], expref: Any) -> list[Any]:
    """Return by what the elements are ordered: all numbers, or all strings."""
    keys = [expref.visit(expref.expression, element) for element in array]
    if wrong_type(name, keys, ["array-number", "array-string"]) is not None:
        given = _elements(keys)
        raise EvaluationFailed(
            f"the expression of {name}() must make a number for each element or a string for each, "
            f"and makes {given}{FOR_EVENT}{_remedy(given, ['string'])}"
        )
    return keys


def _calculated(name: str, calculate: Callable[[], int | Decimal]) -> int | Decimal:
    try:
        return calculate()
    except OverflowError:
        raise EvaluationFailed(
            f"{name}() makes a number that does not fit a double{FOR_EVENT}"
        ) from None


def _elements(array: list[Any]) -> str:
    """Return the types of an array's elements: `a number and null`."""
    return " and ".join(sorted(_PHRASES[kind] for kind in kinds_of(array)))


def _remedy(given: str, types: Iterable[str]) -> str:
    if "null" in given:
        return "; use not_null() to replace what may be missing"
    if any("string" in one for one in types) and ("number" in given or "boolean" in given):
        return "; use to_string()"
    return ""
