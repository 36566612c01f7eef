"""JSON as Hookfast takes it: written with every digit, and read as strictly as by Hookfast."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any


def encode(value: object) -> bytes:
    """Return a value as JSON: None, bool, int, float, Decimal (with its digits), str, list, tuple,
    dict with keys that are str, and datetime with a time zone (as RFC 3339). Raises ValueError,
    with the place, for what is not JSON, such as NaN."""
    try:
        return _text(value, "").encode()
    except RecursionError:
        raise ValueError("the value contains itself, or is nested too deeply") from None


def parse(content: bytes) -> Any:
    """Return the value of bytes that are JSON. Raises ValueError also for what only Python takes
    for JSON: another encoding than UTF-8, a byte order mark, NaN and infinities; and for two
    members of the same name, of which only one would count."""
    try:
        return json.loads(content.decode(), object_pairs_hook=_members, parse_constant=_constant)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None


def rfc3339(at: datetime) -> str:
    """Return a time as text, in UTC. Raises ValueError for a time without a time zone."""
    if at.tzinfo is None or at.utcoffset() is None:
        raise ValueError("a time needs a time zone, such as datetime.now(timezone.utc)")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _text(value: object, place: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value, place)
        case int():
            return _integer(value, place)
        case float() if math.isfinite(value):
            return float.__repr__(value)
        case Decimal() if value.is_finite():
            return str(value)
        case float() | Decimal():
            raise _error(place, f"{value} is not a number")
        case list() | tuple():
            return _joined("[]", (_text(one, f"{place}/{i}") for i, one in enumerate(value)))
        case dict():
            return _joined("{}", (_member(name, one, place) for name, one in value.items()))
        case datetime():
            return f'"{_time(value, place)}"'
    raise _error(place, f"{type(value).__name__} has no form in JSON")


def _joined(brackets: str, texts: Iterable[str]) -> str:
    return f"{brackets[0]}{','.join(texts)}{brackets[1]}"


def _member(name: object, value: object, place: str) -> str:
    if not isinstance(name, str):
        # `json.dumps` would write 1 as "1", which may be the name of another member
        raise _error(place, f"the key {name!r} is not a str")
    return f"{_string(name, place)}:{_text(value, f'{place}/{name}')}"


def _string(value: str, place: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _error(place, "text that is not Unicode (a lone surrogate)") from None
    return encode_basestring(value)


def _integer(value: int, place: str) -> str:
    try:
        return int.__repr__(value)
    except ValueError as error:  # Python writes at most 4,300 digits
        raise _error(place, str(error)) from None


def _time(value: datetime, place: str) -> str:
    try:
        return rfc3339(value)
    except ValueError as error:
        raise _error(place, str(error)) from None


def _error(place: str, why: str) -> ValueError:
    return ValueError(f"the value is not JSON{place and f' at {place}'}: {why}")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has two members of the same name")
    return members


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
