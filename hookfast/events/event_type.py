"""Event types (`order.invoice.paid`) and the patterns that subscribe to them. Pure.

An event type has one to six parts; three are recommended, and a setting can demand a number. A
pattern has, for each part, a name or `*` (exactly one part); its last part may be `**` instead (one
or more remaining parts): `order.**` matches `order.paid`, but not `order`. So only a few patterns
can match an event type, 15 of them for three parts and 127 for six, and finding an event's
subscribers is a lookup of these keys, however many subscribers there are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from hookfast.errors import InvalidInput

MAX_PARTS = 6
MAX_LENGTH = 128
"""Longest event type or pattern, in characters."""

_EXAMPLE = ("acme", "eu", "shop", "order", "invoice", "paid")
_NAME = "[a-z][a-z0-9_]*"
_EVENT_TYPE = re.compile(rf"{_NAME}(\.{_NAME}){{0,{MAX_PARTS - 1}}}")
_PART = rf"({_NAME}|\*)"
# up to six parts, or up to five and then `**`
_PATTERN = re.compile(
    rf"{_PART}(\.{_PART}){{0,{MAX_PARTS - 1}}}|({_PART}\.){{0,{MAX_PARTS - 1}}}\*\*"
)


def is_event_type(text: str, *, parts: int | None = None) -> bool:
    """Whether the text is an event type, with exactly `parts` parts (None: with any number)."""
    if len(text) > MAX_LENGTH or not _EVENT_TYPE.fullmatch(text):
        return False
    return parts is None or text.count(".") == parts - 1


def parse_event_type(text: str, *, pointer: str = "/type", parts: int | None = None) -> str:
    """Return the text if it is an event type, with exactly `parts` parts (None: with any number).
    Raises InvalidInput (`invalid_event_type`) if not."""
    if not is_event_type(text, parts=parts):
        raise InvalidInput.at(
            pointer,
            f"an event type is {describe_parts(parts)} joined by dots, each a lower-case letter "
            f"followed by lower-case letters, digits or '_', {MAX_LENGTH} characters at most, "
            f"e.g. '{'.'.join(_EXAMPLE[-(parts or 3) :])}'",
            code="invalid_event_type",
        )
    return text


def describe_parts(parts: int | None) -> str:
    """Return how many parts an event type has, in words: `1 to 6 parts`, `exactly 3 parts`."""
    if parts is None:
        return f"1 to {MAX_PARTS} parts"
    return f"exactly {parts} part{'' if parts == 1 else 's'}"


def parse_pattern(text: str, *, pointer: str) -> str:
    """Return the text if it is a pattern. Raises InvalidInput (`invalid_pattern`) if not."""
    if len(text) > MAX_LENGTH or not _PATTERN.fullmatch(text):
        raise InvalidInput.at(
            pointer,
            f"a pattern is an event type (at most {MAX_PARTS} parts, {MAX_LENGTH} characters) in "
            "which any part may be '*' (exactly one part) and the last may be '**' (one or more "
            "parts), e.g. 'order.invoice.paid', 'order.*.paid', 'order.**', '**'",
            code="invalid_pattern",
        )
    return text


def matches(pattern: str, event_type: str) -> bool:
    """Whether a valid pattern matches a valid event type."""
    parts, names = pattern.split("."), event_type.split(".")
    if parts[-1] == "**":
        parts.pop()
        if len(names) <= len(parts):
            return False  # nothing remains for `**`
        names = names[: len(parts)]
    return len(parts) == len(names) and all(
        part in ("*", name) for part, name in zip(parts, names, strict=True)
    )


def can_have_parts(pattern: str, parts: int) -> bool:
    """Whether a valid pattern can match event types of so many parts."""
    least = pattern.count(".") + 1
    return least <= parts if pattern.endswith("**") else least == parts


# cached: 127 patterns take 25 µs to build, and one read of the feed asks for thousands
@lru_cache(maxsize=256)
def matching_patterns(event_type: str) -> tuple[str, ...]:
    """Return all valid patterns that match a valid event type, the narrowest first, `**` last.

    For `a.b.c`: a.b.c a.b.* a.*.c … *.*.* (8), a.b.** a.*.** … (4), a.** *.** (2), ** (1). Patterns
    longer than MAX_LENGTH are left out, because `parse_pattern` rejects them.
    """
    choices = [(name, "*") for name in event_type.split(".")]
    patterns = [".".join(parts) for parts in product(*choices)]
    for kept in range(len(choices) - 1, -1, -1):
        patterns += [".".join((*parts, "**")) for parts in product(*choices[:kept])]
    return tuple(pattern for pattern in patterns if len(pattern) <= MAX_LENGTH)
