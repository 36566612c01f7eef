"""Types, equality and arithmetic of JSON values, as JMESPath defines them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import reduce
from types import NoneType
from typing import Any, Final

from hookfast.strict_json.numbers import MAX_DIGITS, NUMBER_TYPES, WrittenNumber

_KINDS: Final = {
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
    str: "string",
    int: "number",
    Decimal: "number",
    WrittenNumber: "number",
}
AVERAGE_DIGITS: Final = 34
"""Significant digits of an average that has no end, as in IEEE 754's decimal128."""

_TOO_LARGE: Final = 10**MAX_DIGITS  # the first integer that the parser of JSON rejects


def kind_of(value: Any) -> str:
    """Return the name of a value's type in JMESPath."""
    return _KINDS.get(type(value), "expref")


def kinds_of(values: Iterable[Any]) -> set[str]:
    """Return the names of the values' types in JMESPath."""
    return {_KINDS.get(each, "expref") for each in set(map(type, values))}


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, at every depth: 1 equals 1.0, but not true."""
    if type(one) is list:
        return type(other) is list and len(one) == len(other) and all(map(equal, one, other))
    if type(one) is dict:
        return (
            type(other) is dict
            and one.keys() == other.keys()
            and all(equal(each, other[name]) for name, each in one.items())
        )
    if type(one) in NUMBER_TYPES:
        return type(other) in NUMBER_TYPES and bool(one == other)
    return type(one) is type(other) and bool(one == other)


def total(numbers: Sequence[int | Decimal]) -> int | Decimal:
    """Return the exact sum. Raises OverflowError if it cannot be sent."""
    if set(map(type, numbers)) <= {int}:
        return in_range(sum(numbers))
    return in_range(reduce(_EXACT.add, map(Decimal, numbers)))


def average(numbers: Sequence[int | Decimal]) -> Decimal:
    """Return the quotient of the exact sum, to AVERAGE_DIGITS digits, or to as many as the sum has.
    Raises OverflowError if it cannot be sent."""
    exact = Decimal(total(numbers))
    return Context(prec=max(AVERAGE_DIGITS, len(str(exact)))).divide(exact, Decimal(len(numbers)))


def in_range(number: int | Decimal) -> int | Decimal:
    """Return the number if a request could have it: an integer of at most 4,300 digits, or another
    number that fits a double. Raises OverflowError otherwise."""
    if type(number) is int:
        fits = -_TOO_LARGE < number < _TOO_LARGE
    else:
        fits = math.isfinite(float(number))
    if not fits:
        raise OverflowError
    return number


_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
