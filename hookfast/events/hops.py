"""Hops of an event: how many services it has passed through sources, so that a loop ends. Pure.

An event that is emitted has 0. Each delivery says how many its event has, and the next service that
receives it through a source counts one more (docs/adr/0024-hops.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HEADER: Final = "X-Hook-Hops"
"""The header of deliveries and inbound requests; left out for 0."""
MAX_HOPS: Final = 5
"""The most hops of an event; a source rejects a request that would have more."""

_NUMBER = re.compile(r"0*([0-9]{1,4})[0-9]*")


def received_hops(values: Iterable[str]) -> int:
    """Return the hops of a request whose header has these values: one more than the largest. A
    proxy may have joined values by commas (RFC 9110, section 5.3). A value that is not a decimal
    number counts as 0, and one above 9999 as some number above 999."""
    parts = (part.strip(" \t") for value in values for part in value.split(","))
    matches = (_NUMBER.fullmatch(part) for part in parts)
    return 1 + max((int(match[1]) for match in matches if match), default=0)
