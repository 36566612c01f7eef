"""Where JSON that the scanner accepts goes against our rules. Pure.

The fast path in `json_text` only learns that something is wrong; this slower walk over the tokens
finds the place, so that the error can name it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from itertools import repeat

_MAX_TOKENS = 200_000
"""Where the walk gives up: about 0.1 s. An error is worth no more of everyone's time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, what to do about it, and its index in the text (None: not found in time)."""

    reason: str
    advice: str
    position: int | None = None


DUPLICATE = Fault("two members of an object have the same name", "keep one")
_CONSTANT = Fault("NaN and Infinity are not JSON", "send null or a string")
_OUT_OF_RANGE = Fault("a number is out of range", "send one a double can hold, or a string")
_TOO_MANY_DIGITS = Fault("an integer has too many digits", "send it as a string")
_TOO_DEEP = Fault("the nesting is too deep", "flatten it")
_SOMEWHERE = Fault(
    "a member name is there twice, or a number is out of range", "mend it and send it again"
)


def find_fault(text: str, start: int, *, max_depth: int | None = None) -> Fault:
    """The first fault in the value that starts at `start`: a duplicate member name, a number that
    is no finite double or has too many digits, or (with `max_depth`) a bracket too deep."""
    names: list[set[str] | None] = []  # per open bracket: the names seen in an object
    index = start
    for _ in repeat(None, _MAX_TOKENS):
        token = _TOKEN.search(text, index)
        if token is None:
            break
        index = token.end()
        fault: Fault | None = None
        if token["open"]:
            names.append(set() if token["open"] == "{" else None)
            if max_depth is not None and len(names) > max_depth:
                fault = _TOO_DEEP
        elif token["close"]:
            names[-1:] = []
        elif token["number"]:
            fault = _number_fault(token["number"])
        elif token["constant"]:
            fault = _CONSTANT
        else:
            try:
                string, index = _STRINGS.raw_decode(text, token.start())
            except json.JSONDecodeError:
                break
            seen = names[-1] if names else None
            if seen is not None and _COLON.match(text, index):
                if string in seen:
                    fault = DUPLICATE
                seen.add(string)
        if fault is not None:
            return replace(fault, position=token.start())
    return _SOMEWHERE


_TOKEN = re.compile(
    r'(?P<open>[\[{])|(?P<close>[\]}])|"|(?P<constant>-?Infinity|NaN)'
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_COLON = re.compile(r"[ \t\n\r]*:")
_STRINGS = json.JSONDecoder()


def _number_fault(digits: str) -> Fault | None:
    if digits.lstrip("-").isdecimal():
        try:
            int(digits)
        except ValueError:
            return _TOO_MANY_DIGITS
        return None
    return _OUT_OF_RANGE if math.isinf(float(digits)) else None
