"""JSON laid out to be read. Its tokens stay as they were written: `1.0` does not become `1`, nor a
long number another one. Pure."""

from __future__ import annotations

import re
from typing import Final

MAX_SHOWN: Final = 64 * 1024
"""Characters of a body that a page shows; what is longer is for downloading."""

_INDENT = "  "
# Possessive: what a repeat could go back to takes a hundred bytes for each character of a string.
# The quote at the end may be missing, or each of its escaped ones would be tried as a beginning.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def shown(text: str, *, limit: int = MAX_SHOWN) -> tuple[str, bool]:
    """The start of a JSON text with one member or element on a line, and whether that is all of it.
    Text that is no JSON is only cut."""
    lines: list[str] = []
    line, depth, size, before = "", 0, 0, ""
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part in "]}":
            depth = max(0, depth - 1)
            if before and before in "[{":  # nothing in it: it stays on the line
                line += part
                before = part
                continue
        if line and ((before and before in "[{,") or part in "]}"):
            lines.append(line)
            size += len(line) + 1
            line = ""
            if size > limit:
                return "\n".join(lines)[:limit], False
        if not line:
            line = _INDENT * depth
        line += part
        if part == ":":
            line += " "
        elif part in "[{":
            depth += 1
        before = part
    lines.append(line)
    whole = "\n".join(lines)
    return whole[:limit], len(whole) <= limit
