"""Indents JSON without changing its tokens: `1.0` does not become `1`, and a long number keeps its
digits. Pure."""

from __future__ import annotations

import re
from typing import Final

MAX_SHOWN: Final = 64 * 1024
"""Characters of a body that a page shows; a longer one can be downloaded."""

_INDENT = "  "
# The possessive quantifier saves a hundred bytes of backtracking state per character of a string.
# The last quote is optional: otherwise each escaped quote of an unclosed string would be tried as
# the start of one.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def pretty(text: str, *, limit: int = MAX_SHOWN) -> tuple[str, bool]:
    """Return the start of a JSON text with one member or element per line, and whether it is
    complete. Text that is not JSON is only truncated."""
    lines: list[str] = []
    line, depth, size, before = "", 0, 0, ""
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part in "]}":
            depth = max(0, depth - 1)
            if before and before in "[{":  # empty: it stays on the line
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
    indented = "\n".join(lines)
    return indented[:limit], len(indented) <= limit
