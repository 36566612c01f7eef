"""The keywords of JSON Schema that Python applies within a budget of time. Pure.

- `pattern`: the validator has another dialect of regular expressions, and no limit for long texts.
- `enum` and `uniqueItems`: the validator takes quadratic time for numbers, objects and arrays.
- `multipleOf`, `minimum`, `maximum` and the exclusive ones: the validator takes some numbers for
  doubles, such as 9007199254740993.0 if the limit is an integer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from operator import ge, gt, le, lt
from typing import Any, Final

from jsonschema_rs import (
    Draft202012Validator,
    FancyRegexOptions,
    RegexOptions,
    ValidationErrorKind,
)

from hookfast.events.pattern import translate
from hookfast.strict_json.numbers import significant

_SECONDS: Final = 1.0
"""Of processor time for the keywords of a check."""
_CHECK_EVERY: Final = 32
"""Steps between two looks at the clock, because a look costs as much as a step."""
_MAX_SEARCHED: Final = 100_000_000
"""Characters times places of a pattern. The engine takes up to 10 ns for one of them at another:
`[ab]*a[ab]{380}c` in 256 KiB takes a second."""
MAX_PLACES: Final = 10_000
"""Of a pattern, so that a text of as many characters can be searched."""
_MAX_BACKTRACKED: Final = 200_000_000
"""Characters times steps back, which take 1 to 1.5 ns: `(?!.*\\.\\.)b` in 256 KiB gets 512 steps
and takes 0.2 s. A pattern that looks around at each place of a text has enough steps for about
11,000 characters; one with `^` takes few."""
_MOST_STEPS_BACK: Final = 2**20
_FEWEST_STEPS_BACK: Final = 2**9
_MAX_BYTES: Final = 100_000_000
"""Of a compiled pattern. `^\\p{L}{1,1000}$` has more than the engine's default of 10 MB."""
CHEAP_PLACES: Final = 100
"""Patterns of more places, and those that backtrack, count their time."""


class TooSlow(Exception):
    """The check would take too long. It is not known whether the data fits the schema."""


class _Budget:
    """The time that one check has left."""

    __slots__ = ("_end", "_until_look", "used_up")

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._until_look = _CHECK_EVERY
        self.used_up = False

    def has_time(self, *, look: bool = False) -> bool:
        """Count a step, and return whether there is time for it."""
        self._until_look -= 1
        if look or self._until_look <= 0:
            self._until_look = _CHECK_EVERY
            self.used_up = self.used_up or time.thread_time() >= self._end
        return not self.used_up


_budget: ContextVar[_Budget] = ContextVar("budget")


@contextmanager
def within_budget() -> Iterator[None]:
    """Apply keywords. Raises TooSlow at the end if there was no time for all of them, because the
    validator lets no keyword end a check within `not` or `anyOf`."""
    token = _budget.set(budget := _Budget(_SECONDS))
    try:
        yield
        if budget.used_up:
            raise TooSlow
    finally:
        _budget.reset(token)


class Pattern:
    """`pattern`: a text matches anywhere (Validation, section 6.3.3)."""

    def __init__(self, pattern: str) -> None:
        """Raises InvalidPattern. It is compiled with `compile`, or when it is first applied."""
        self.translated = translate(pattern)
        self.is_costly = self.translated.backtracks or self.translated.places > CHEAP_PLACES
        self._matchers: dict[int, Draft202012Validator] = {}

    def compile(self) -> None:
        """Raises ValidationError for a pattern that is too large, or has what the engine does not
        know."""
        self._matcher(_MOST_STEPS_BACK)

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not self.found_in(instance):
            raise ValueError

    def found_in(self, text: str) -> bool:
        """Whether the text matches, or there was no time to find out."""
        budget = _budget.get()
        if not budget.has_time(look=self.is_costly):
            return True
        if not self.translated.backtracks:
            if self.is_costly and len(text) * self.translated.places > _MAX_SEARCHED:
                budget.used_up = True
                return True
            return self._matcher(_MOST_STEPS_BACK).is_valid(text)
        for error in self._matcher(_steps_back(len(text))).iter_errors(text):
            if isinstance(error.kind, ValidationErrorKind.Pattern):
                return False
            budget.used_up = True
        return True

    def _matcher(self, steps: int) -> Draft202012Validator:
        if steps not in self._matchers:
            engine = engine_for(backtracks=self.translated.backtracks, steps=steps)
            self._matchers[steps] = Draft202012Validator(
                {"pattern": self.translated.text}, offline=True, pattern_options=engine
            )
        return self._matchers[steps]


def _steps_back(length: int) -> int:
    """Return how often a search in a text of this length may step back: a power of two, so that few
    matchers are compiled."""
    steps = _MAX_BACKTRACKED // max(length, 1)
    return min(max(1 << steps.bit_length() - 1, _FEWEST_STEPS_BACK), _MOST_STEPS_BACK)


def engine_for(
    *, backtracks: bool, steps: int = _MOST_STEPS_BACK
) -> FancyRegexOptions | RegexOptions:
    """Return the engine that applies patterns, with its limits. Both read them alike."""
    if backtracks:
        return FancyRegexOptions(backtrack_limit=steps, size_limit=_MAX_BYTES)
    return RegexOptions(size_limit=_MAX_BYTES)


class Enum:
    """`enum`: a value equals one of these (Validation, section 6.1.2)."""

    def __init__(self, _: Any, values: Sequence[Any], __: Any) -> None:
        budget = _Budget(float("inf"))
        self._values = {_key(value, budget) for value in values}

    def validate(self, instance: Any) -> None:
        budget = _budget.get()
        if budget.has_time() and _key(instance, budget) not in self._values:
            raise ValueError


class UniqueItems:
    """`uniqueItems`: no two items are equal (Validation, section 6.4.3)."""

    def __init__(self, _: Any, unique: bool, __: Any) -> None:
        self._unique = unique

    def validate(self, instance: Any) -> None:
        if not self._unique or not isinstance(instance, list):
            return
        budget, seen = _budget.get(), set[Hashable]()
        for item in instance:
            if not budget.has_time():
                return
            key = _key(item, budget)
            if key in seen:
                raise ValueError
            seen.add(key)


class Bound:
    """`minimum`, `maximum`, and the exclusive ones (Validation, sections 6.2.2 to 6.2.5)."""

    def __init__(self, limit: int | float | Decimal, fits: Callable[[Any, Any], bool]) -> None:
        self._limit = _exact(limit)
        self._fits = fits

    def validate(self, instance: Any) -> None:
        if _is_number(instance) and not self._fits(_exact(instance), self._limit):
            raise ValueError


class MultipleOf:
    """`multipleOf`: division by this number gives an integer (Validation, section 6.2.1)."""

    def __init__(self, _: Any, divisor: int | float | Decimal, __: Any) -> None:
        self._divisor, self._exponent = _scaled(divisor)

    def validate(self, instance: Any) -> None:
        if not _is_number(instance) or not _budget.get().has_time(look=True):
            return
        number, exponent = _scaled(instance)
        shift = exponent - self._exponent
        if not number:
            return
        if shift < 0:
            digits = str(number)
            if digits[shift:].strip("0"):
                raise ValueError
            number, shift = Decimal(digits[:shift]), 0
        divisor = int(self._divisor)
        # modulo the divisor, because a power of ten may have a billion digits
        if int(_ANY_SIZE.remainder(number, self._divisor)) * pow(10, shift, divisor) % divisor:
            raise ValueError


_ANY_SIZE: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _scaled(value: int | float | Decimal) -> tuple[Decimal, int]:
    """Return a number as an integer and the power of ten by which it is multiplied."""
    sign, digits, exponent = Decimal(_exact(value)).as_tuple()
    return Decimal((sign, digits, 0)), int(exponent)


def _key(value: Any, budget: _Budget) -> Hashable:
    """Return what is equal for two values exactly if they are equal in JSON Schema (Core, section
    4.2.2): members have no order, 1 equals 1.0, and neither equals true. If the time is used up,
    it is of no use."""
    if isinstance(value, str | bool) or value is None:
        return (type(value), value)
    if isinstance(value, dict):
        if budget.has_time():
            return frozenset((name, _key(one, budget)) for name, one in value.items())
        return None
    if isinstance(value, list):
        return tuple([_key(one, budget) for one in value]) if budget.has_time() else None
    # the hashes of numbers can be made to collide, and those of texts cannot
    return significant(_exact(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _exact(value: int | float | Decimal) -> int | Decimal:
    """Return a number as written: a double has the shortest digits that are read as it."""
    return value if isinstance(value, int) else Decimal(str(value))


def keywords(patterns: Mapping[str, Pattern]) -> dict[str, Any]:
    """Return what creates these keywords in a schema with these patterns."""
    return {
        "enum": Enum,
        "exclusiveMaximum": lambda _, limit, __: Bound(limit, lt),
        "exclusiveMinimum": lambda _, limit, __: Bound(limit, gt),
        "maximum": lambda _, limit, __: Bound(limit, le),
        "minimum": lambda _, limit, __: Bound(limit, ge),
        "multipleOf": MultipleOf,
        "pattern": lambda _, pattern, __: patterns[pattern],
        "uniqueItems": UniqueItems,
    }
