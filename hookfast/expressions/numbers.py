"""JSON whose numbers keep the text that they were sent with (`1.10`, `1E5`). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

_MAX_DIGITS = 4_300
"""Longest integer that `int` converts."""


class ExactFloat(float):
    """A number that keeps its text in JSON, where Python would write it in another way."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


# JMESPath's functions compare the names of types.
ExactFloat.__name__ = "float"


@dataclass(frozen=True, slots=True)
class ExactJson:
    """A parsed JSON text. `exact`: some of its numbers are ExactFloat, so that its values are
    written by `to_text`, which is slower than the standard library's."""

    value: Any
    exact: bool

    @classmethod
    def parse(cls, text: str | bytes) -> ExactJson:
        """Parse valid JSON."""
        exact = False

        def integer(digits: str) -> int | ExactFloat:
            nonlocal exact
            if len(digits) <= _MAX_DIGITS:
                return int(digits)
            exact = True
            return ExactFloat(digits)

        def number(digits: str) -> float:
            nonlocal exact
            value = float(digits)
            if repr(value) == digits:
                return value
            exact = True
            return ExactFloat(digits)

        return cls(json.loads(text, parse_float=number, parse_int=integer), exact)


def to_text(value: Any, *, exact: bool) -> str:
    """Return a value as compact JSON. Raises ValueError for a number that JSON cannot express."""
    if not exact:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    match value:
        case ExactFloat():
            return value.text
        case str():
            return encode_basestring(value)
        case list():
            return f"[{','.join([to_text(one, exact=True) for one in value])}]"
        case dict():
            members = [
                f"{encode_basestring(name)}:{to_text(one, exact=True)}"
                for name, one in value.items()
            ]
            return f"{{{','.join(members)}}}"
        case _:
            return to_text(value, exact=False)
