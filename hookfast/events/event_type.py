"""Event types (`order.invoice.paid`) and the patterns that subscribe to them. Pure.

An event type has exactly three parts. A pattern has, for each part, a name or `*` (any one part);
its last part may be `**` instead (one or more remaining parts). So only fifteen patterns can match
an event type, and finding an event's subscribers is a lookup of fifteen keys, however many there
are.
"""

from __future__ import annotations

import re
from itertools import product

from hookfast.errors import InvalidInput

PARTS = 3
MAX_LENGTH = 128
"""Longest event type or pattern, in characters."""

_NAME = "[a-z][a-z0-9_]*"
_EVENT_TYPE = re.compile(rf"{_NAME}(\.{_NAME}){{{PARTS - 1}}}")
_PART = rf"({_NAME}|\*)"
# three parts, or up to two and then `**`
_PATTERN = re.compile(rf"{_PART}(\.{_PART}){{{PARTS - 1}}}|({_PART}\.){{0,{PARTS - 1}}}\*\*")


def parse_event_type(text: str, *, pointer: str = "/type") -> str:
    """Return the text if it is an event type. Raises InvalidInput (`invalid_event_type`) if not."""
    if len(text) > MAX_LENGTH or not _EVENT_TYPE.fullmatch(text):
        raise InvalidInput.at(
            pointer,
            "an event type is three parts joined by dots, each a lower-case letter followed by "
            f"lower-case letters, digits or '_', {MAX_LENGTH} characters at most, "
            "e.g. 'order.invoice.paid'",
            code="invalid_event_type",
        )
    return text


def parse_pattern(text: str, *, pointer: str) -> str:
    """Return the text if it is a pattern. Raises InvalidInput (`invalid_pattern`) if not."""
    if len(text) > MAX_LENGTH or not _PATTERN.fullmatch(text):
        raise InvalidInput.at(
            pointer,
            "a pattern is an event type in which any part may be '*' (one part) and the last "
            f"may be '**' (all the rest), {MAX_LENGTH} characters at most, "
            "e.g. 'order.invoice.paid', 'order.*.paid', 'order.**', '**'",
            code="invalid_pattern",
        )
    return text


def matches(pattern: str, event_type: str) -> bool:
    """Whether a valid pattern matches a valid event type."""
    parts, names = pattern.split("."), event_type.split(".")
    if parts[-1] == "**":
        parts.pop()
        names = names[: len(parts)]
    return len(parts) == len(names) and all(
        part in ("*", name) for part, name in zip(parts, names, strict=True)
    )


def matching_patterns(event_type: str) -> tuple[str, ...]:
    """Return all valid patterns that match a valid event type, the narrowest first, `**` last.

    For `a.b.c`: a.b.c a.b.* a.*.c … *.*.* (8), a.b.** a.*.** … (4), a.** *.** (2), ** (1). Patterns
    longer than MAX_LENGTH are left out, because `parse_pattern` rejects them.
    """
    choices = [(name, "*") for name in event_type.split(".")]
    patterns = [".".join(parts) for parts in product(*choices)]
    for kept in range(PARTS - 1, -1, -1):
        patterns += [".".join((*parts, "**")) for parts in product(*choices[:kept])]
    return tuple(pattern for pattern in patterns if len(pattern) <= MAX_LENGTH)
