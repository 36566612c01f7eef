"""JSON as text, with the digits of numbers as they were written: to write, and to read again. Pure.

`to_text` writes what `json.dumps` cannot: `Decimal`. `from_text` reads text that is already known
to be JSON: what `to_text` wrote, or what `parser` or the inbox accepted. It is the one way to read
JSON from storage, and rejects nothing, as rejecting is for requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, Literal, TypeAlias

from hookfast.strict_json.numbers import any_integer, any_number

Layout = Literal["compact", "spaced", "indented"]
_ObjectHook: TypeAlias = Callable[[dict[str, Any]], Any]


def to_text(value: Any, *, layout: Layout = "compact", sort_keys: bool = False) -> str:
    """Return a value as JSON that any encoding can hold: lone surrogates are escaped.

    `spaced` is one line with blanks, for people; `indented` has a line for each member. Raises
    ValueError for a number that JSON cannot express, and TypeError for a value that is not JSON's.
    """
    try:
        text = _ENCODERS[layout, sort_keys].encode(value)
    except TypeError:  # there is a Decimal; in C this is found out fast
        text = _Writer(layout, sort_keys=sort_keys).write(value, "\n")
    return text if text.isascii() else _SURROGATE.sub(_escaped, text)


def from_text(text: str | bytes, *, object_hook: _ObjectHook | None = None) -> Any:
    """Return the value of a JSON text. `object_hook` is called with each object, and returns what
    stands for it. Raises ValueError if the text is not JSON."""
    decoder = _DECODER if object_hook is None else _decoder(object_hook)
    return decoder.decode(text if isinstance(text, str) else text.decode())


class _Writer:
    """Writes JSON as the standard library does, and decimals too."""

    def __init__(self, layout: Layout, *, sort_keys: bool) -> None:
        self._comma, self._colon = _SEPARATORS[layout]
        self._indent = "  " if layout == "indented" else ""
        self._sort_keys = sort_keys

    def write(self, value: Any, line: str) -> str:
        """Write a value. `line` is the start of a line at its depth."""
        if isinstance(value, str):
            return encode_basestring(value)
        if isinstance(value, Decimal):
            if not value.is_finite() and type(value) is Decimal:
                raise ValueError("JSON has no infinite numbers")
            return str(value)
        if type(value) is int:
            return str(value)
        inner = line + self._indent
        if isinstance(value, dict):
            members = sorted(value.items()) if self._sort_keys else value.items()
            parts = [
                f"{encode_basestring(name)}{self._colon}{self.write(one, inner)}"
                for name, one in members
            ]
            return self._enclosed("{", parts, "}", line)
        if isinstance(value, list | tuple):
            return self._enclosed("[", [self.write(one, inner) for one in value], "]", line)
        return _ENCODERS["compact", False].encode(value)

    def _enclosed(self, opening: str, parts: list[str], closing: str, line: str) -> str:
        if not self._indent or not parts:
            return f"{opening}{self._comma.join(parts)}{closing}"
        inner = line + self._indent
        return f"{opening}{inner}{f'{self._comma}{inner}'.join(parts)}{line}{closing}"


def _no_constant(_name: str) -> None:
    raise ValueError("NaN and Infinity are not JSON")


def _decoder(object_hook: _ObjectHook | None = None) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_float=any_number,
        parse_int=any_integer,
        parse_constant=_no_constant,
        object_hook=object_hook,
    )


_DECODER: Final = _decoder()
_SEPARATORS: Final[dict[Layout, tuple[str, str]]] = {
    "compact": (",", ":"),
    "spaced": (", ", ": "),
    "indented": (",", ": "),
}
_ENCODERS: Final = {
    (layout, sort_keys): json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=separators,
        sort_keys=sort_keys,
        indent=2 if layout == "indented" else None,
    )
    for layout, separators in _SEPARATORS.items()
    for sort_keys in (False, True)
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _escaped(surrogate: re.Match[str]) -> str:
    return f"\\u{ord(surrogate[0]):04x}"
