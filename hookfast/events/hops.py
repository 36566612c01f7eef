"""Hops of an event: how many services it has passed through sources, so that a loop ends. Pure.

An event that is emitted has 0. Each delivery says how many its event has, and the next service that
receives it through a source counts one more (docs/adr/0024-hops.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HEADER: Final = "X-Hook-Hops"
"""The header of deliveries and inbound requests; left out for 0."""
MAX_HOPS: Final = 5
"""The most hops of an event; a source rejects a request that would have more."""

_DIGITS_READ: Final = 4  # of a longer number, which is beyond the limit in any case


def received_hops(values: Iterable[str]) -> int:
    """Return the hops of a request whose header has these values: one more than the largest, as a
    proxy may have joined repeated fields by commas (RFC 9110, section 5.3). Each pass through a
    service makes the largest grow, whatever stands beside it, so every loop ends. A value that is
    not a decimal number counts as MAX_HOPS: it is not known how far the event has come. One above
    9999 counts as its first four digits."""
    return 1 + max((_number(part) for value in values for part in value.split(",")), default=0)


def _number(text: str) -> int:
    digits = text.strip(" \t")
    if not (digits.isascii() and digits.isdecimal()):
        return MAX_HOPS
    return int(digits.lstrip("0")[:_DIGITS_READ] or "0")
