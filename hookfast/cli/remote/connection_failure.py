"""What went wrong with a connection, in words: some of httpx2's errors say nothing, and some end
in a full stop."""

from __future__ import annotations

import re

_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])")


def reason(error: Exception) -> str:
    """What the error says, to stand within a sentence; else what it is called: `read error`."""
    text = str(error).strip().rstrip(".")
    return text or _SEAM.sub(" ", type(error).__name__).lower()
