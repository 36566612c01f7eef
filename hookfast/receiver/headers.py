"""The headers of a request as a verifier reads them: by name whatever its case, and distrusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from .errors import MalformedHeader, MissingHeader

MAX_VALUE_LENGTH = 16_384
"""Characters. Sixteen signatures of the longest kind (RSA, 8192 bits) are shorter."""

_OURS = re.compile(r"x-hook-|x-webhook-|webhook-", re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]{1,11}")  # 11 digits reach the year 5138: datetime takes them all


class Headers(Protocol):
    """What frameworks call headers: names and values in `items()`, a repeated name twice."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class SignedHeaders:
    """The headers that belong to signatures; every other header is left alone, whatever is in it.

    A name that comes twice with different values raises MalformedHeader when it is read: which one
    was meant would depend on the framework, and an attacker could choose.
    """

    __slots__ = ("_values",)

    def __init__(self, headers: Headers) -> None:
        self._values: dict[str, set[str]] = {}
        for name, value in headers.items():
            text = _text(name)
            if _OURS.match(text):
                self._values.setdefault(text.lower(), set()).add(_text(value).strip(" \t"))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def get(self, name: str) -> str | None:
        """The value, None when it did not come; MalformedHeader unless it is visible ASCII."""
        values = self._values.get(name.lower())
        if values is None:
            return None
        if len(values) > 1:
            raise MalformedHeader(f"{name} came more than once, with different values", header=name)
        (value,) = values
        if not value:
            raise MalformedHeader(f"{name} came empty", header=name)
        if len(value) > MAX_VALUE_LENGTH or not (value.isascii() and value.isprintable()):
            raise MalformedHeader(f"{name} is too long or not visible ASCII", header=name)
        return value

    def require(self, name: str, *, why: str) -> str:
        """The value; MissingHeader, which says `why` it is needed, when it did not come."""
        value = self.get(name)
        if value is None:
            raise MissingHeader(
                f"{name} is missing: {why}. Does a proxy in front of you strip it?", header=name
            )
        return value

    def first(self, *names: str) -> str | None:
        """The value of the first of these names that came."""
        for name in names:
            value = self.get(name)
            if value is not None:
                return value
        return None


def decimal(value: str, *, header: str) -> int:
    """A non-negative number in plain digits (`int` takes signs, underscores and other scripts)."""
    if not _DECIMAL.fullmatch(value):
        raise MalformedHeader(f"{header} is not a number in decimal digits", header=header)
    return int(value)


def _text(value: object) -> str:
    # raw ASGI headers are bytes; anything else than text cannot have come over HTTP and is refused
    # where it is read, as the replacement is not ASCII
    if isinstance(value, str):
        return value
    return value.decode("latin-1") if isinstance(value, bytes) else "\ufffd"
