"""Read the headers of an unverified request strictly, by case-insensitive name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from .errors import MalformedHeader, MissingHeader

MAX_VALUE_LENGTH = 16_384
"""Longest header value, in characters; 16 of the longest signatures (RSA, 8192 bits) fit."""

_HOOKFAST_HEADER = re.compile(r"x-hook-|x-webhook-|webhook-", re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]{1,11}")  # 11 digits reach the year 5138, which datetime supports


class Headers(Protocol):
    """The headers object of a framework: `items()` yields a repeated name more than once."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class SignedHeaders:
    """The headers of Hookfast's signatures; all other headers are ignored.

    Reading a header that is repeated with different values raises MalformedHeader: an attacker
    could send both, and the framework would decide which one counts.
    """

    __slots__ = ("_values",)

    def __init__(self, headers: Headers) -> None:
        self._values: dict[str, set[str]] = {}
        for name, value in headers.items():
            text = _text(name)
            if _HOOKFAST_HEADER.match(text):
                self._values.setdefault(text.lower(), set()).add(_text(value).strip(" \t"))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def get(self, name: str) -> str | None:
        """Return the value, None if missing. Raises MalformedHeader unless it is visible ASCII."""
        values = self._values.get(name.lower())
        if values is None:
            return None
        if len(values) > 1:
            raise MalformedHeader(f"{name} is repeated with different values", header=name)
        (value,) = values
        if not value:
            raise MalformedHeader(f"{name} is empty", header=name)
        if len(value) > MAX_VALUE_LENGTH or not (value.isascii() and value.isprintable()):
            raise MalformedHeader(f"{name} is too long or not visible ASCII", header=name)
        return value

    def require(self, name: str, *, why: str) -> str:
        """Return the value. Raises MissingHeader, which says `why` the header is needed."""
        value = self.get(name)
        if value is None:
            raise MissingHeader(
                f"{name} is missing: {why}. Check that no proxy removes it", header=name
            )
        return value

    def first(self, *names: str) -> str | None:
        """Return the value of the first of these headers that is present."""
        for name in names:
            value = self.get(name)
            if value is not None:
                return value
        return None


def decimal(value: str, *, header: str) -> int:
    """Parse plain decimal digits (`int` also accepts signs, underscores and other scripts)."""
    if not _DECIMAL.fullmatch(value):
        raise MalformedHeader(f"{header} is not a number in decimal digits", header=header)
    return int(value)


def _text(value: object) -> str:
    # Raw ASGI headers are bytes. Other types cannot have come over HTTP; their replacement is not
    # ASCII, so it is rejected when it is read.
    if isinstance(value, str):
        return value
    return value.decode("latin-1") if isinstance(value, bytes) else "\ufffd"
