"""JSON numbers with the digits as written. Pure.

An integer is an `int`, and a number with a fraction or an exponent a `Decimal`, never a `float`:
both are exact, are equal when the numbers are, and have equal hashes then. `str` returns the digits
of each as they were written, because those that Python would write in another way (`1E5`,
`0.0000001`, `-0`) are `WrittenNumber`.
"""

from __future__ import annotations

import math
from decimal import MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import Any, Final

MAX_EXPONENT: Final = 9_999
"""Powers of ten beyond this are not calculated with: the sum of 1 and 1e-999999999 would have a
billion digits."""

MAX_DIGITS: Final = 4_300
"""Digits of the longest integer that `int` reads and writes."""

MAX_ZEROS: Final = 40
"""Zeros at the end of a canonical number, or after its decimal point."""


class WrittenNumber(Decimal):
    """A number that Python would write in another way than it was written."""

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, text: str, value: Decimal) -> WrittenNumber:
        number = super().__new__(cls, value)
        number._text = text
        return number

    def __str__(self) -> str:
        return self._text


NUMBER_TYPES: Final = frozenset({int, Decimal, WrittenNumber})
"""The types of parsed JSON numbers. (`isinstance(True, int)` is true.)"""
NEGATIVE_ZERO: Final = WrittenNumber("-0", Decimal("-0"))


def strict_number(text: str) -> Decimal:
    """Return a JSON number with a fraction or an exponent. Raises ValueError unless it fits a
    double, and is zero or at least 1e-9999 away from it."""
    value = _create(text)
    if str(value) == text:
        return value
    value = read_decimal(text)
    if value and (math.isinf(float(value)) or value.adjusted() < -MAX_EXPONENT):
        raise ValueError
    return WrittenNumber(text, _bounded(value))


def any_number(text: str) -> Decimal:
    """Return a JSON number with a fraction or an exponent, of any size. One with a power of ten
    beyond MAX_EXPONENT counts as infinite or as zero, and is still written as it was."""
    value = _create(text)
    return value if str(value) == text else WrittenNumber(text, _bounded(read_decimal(text)))


def strict_integer(text: str) -> int | Decimal:
    """Return a JSON integer: `-0` is a decimal, because no `int` is. Raises ValueError if it has
    more than MAX_DIGITS digits."""
    return NEGATIVE_ZERO if text == "-0" else int(text)


def any_integer(text: str) -> int | Decimal:
    """Return a JSON integer of any size."""
    try:
        return strict_integer(text)
    except ValueError:  # more digits than Python converts
        return any_number(text)


def significant(value: int | Decimal) -> tuple[str, int]:
    """Return the digits of a finite number, without zeros at either end, and its power of ten: the
    same for equal numbers, and different ones for others."""
    if isinstance(value, int):
        digits, exponent = str(value), 0
    else:
        parts = value.as_tuple()
        digits, exponent = "-" * parts.sign + "".join(map(str, parts.digits)), int(parts.exponent)
    kept = digits.rstrip("0")
    return (kept, exponent + len(digits) - len(kept)) if kept.strip("-") else ("0", 0)


def canonical(value: int | Decimal) -> str:
    """Return the same text for equal numbers, and different ones for others: the digits without an
    exponent and without zeros at the end of the fraction. Instead of more than MAX_ZEROS zeros it
    has an exponent, because `1e-9999` is short."""
    if isinstance(value, Decimal) and not value.is_finite():
        return str(value)
    digits, exponent = significant(value)
    text = f"{digits}e{exponent}"
    if max(exponent, -exponent - len(digits.lstrip("-"))) > MAX_ZEROS:
        return text
    return format(Decimal(text), "f")


def with_floats(value: Any) -> Any:
    """Return a JSON value with a float for each decimal: for settings that are calculated with."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [with_floats(one) for one in value]
    if isinstance(value, dict):
        return {name: with_floats(one) for name, one in value.items()}
    return value


def read_decimal(text: str, *, most_exponent: int = 999_999_999_999) -> Decimal:
    """Return a JSON number. `most_exponent` stands for an exponent of more digits than Decimal
    supports."""
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, exponent = text.lower().split("e")
        sign = "-" if exponent.startswith("-") else ""
        return Decimal(f"{mantissa}e{sign}{most_exponent}")


def _bounded(value: Decimal) -> Decimal:
    if abs(value.adjusted()) <= MAX_EXPONENT:
        return value
    return Decimal("Infinity" if value and value.adjusted() > 0 else "0").copy_sign(value)


# Exact, because the precision is higher than any text is long. A number of 1e308 or more becomes
# Infinity, which is no number's text: whether it fits a double is decided outside the fast path.
_create: Final = Context(prec=MAX_PREC, Emax=307, Emin=MIN_EMIN, traps=[]).create_decimal
