"""Find the place where JSON violates the rules of the strict parser. Pure.

The parser's fast path only detects that something is wrong. This slower scan of the tokens finds
the position for the error message.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import repeat

from hookfast.strict_json.numbers import strict_integer, strict_number

_MAX_TOKENS = 200_000
"""Most tokens to scan, about 0.1 s: an error message must not take longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem, the advice to fix it, and its index in the text (None: not found in time)."""

    reason: str
    advice: str
    position: int | None = None


DUPLICATE = Fault("two members of an object have the same name", "keep one")
_CONSTANT = Fault("NaN and Infinity are not JSON", "send null or a string")
_OUT_OF_RANGE = Fault(
    "a number is out of range",
    "send zero, a number whose absolute value is between 1e-9999 and 1.79e308, or a string",
)
_TOO_MANY_DIGITS = Fault("an integer has too many digits", "send it as a string")
_TOO_DEEP = Fault("the nesting is too deep", "flatten it")
_SOMEWHERE = Fault(
    "a member name is repeated, or a number is out of range", "correct it and send it again"
)


def scanner_reason(error: json.JSONDecodeError) -> str:
    """Return why text is not JSON. Some of the scanner's messages end in "at" or a colon, before a
    position or a quotation."""
    return error.msg.rstrip(": ").removesuffix(" at")


def find_fault(text: str, start: int, *, max_depth: int | None = None) -> Fault:
    """Return the first fault in the value at `start`: a duplicate member name, a number that is out
    of range or has too many digits, or (with `max_depth`) a bracket that is too deep."""
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
    integer = digits.lstrip("-").isdecimal()
    try:
        strict_integer(digits) if integer else strict_number(digits)
    except ValueError:
        return _TOO_MANY_DIGITS if integer else _OUT_OF_RANGE
    return None
