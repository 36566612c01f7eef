"""Ports and ranges of ports as they are written: `443, 8000-8999`."""

from __future__ import annotations

import re

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def parse_port_ranges(text: str) -> tuple[range, ...]:
    """The ranges that `text` lists; empty for an empty text. Raises ValueError, in words for
    whoever wrote it."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _PORTS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{part!r} is not a port or a range of ports, like 443 or 8000-8999")
        found.append(range(first, last + 1))
    return tuple(found)
