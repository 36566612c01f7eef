"""W3C Trace Context: the `traceparent` that joins an event to its caller's trace and its attempts.

Pure. Only version 00 is written. From a later version the first four fields are read, as the
specification (section 4.3) requires. The caller decides on sampling; a new trace is sampled.
"""

from __future__ import annotations

import re
import secrets

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


def new() -> str:
    """Return the root of a new, sampled trace: `00-<trace id>-<span id>-01`."""
    return f"00-{_random_hex(16)}-{_random_hex(8)}-01"


def parse(text: str) -> str | None:
    """Return the text as a version 00 `traceparent`, or None if it is not valid."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    version, trace, span, flags, rest = match.groups()
    if version == "ff" or trace == _NO_TRACE or span == _NO_SPAN or (version == "00" and rest):
        return None
    return f"00-{trace}-{span}-{flags}"


def child(traceparent: str) -> str:
    """Return a new span in the trace of a valid `traceparent`, with the same flags."""
    _, trace, _, flags = traceparent.split("-")
    return f"00-{trace}-{_random_hex(8)}-{flags}"


def trace_id(traceparent: str) -> str:
    """Return the trace id of a valid `traceparent`: 32 hexadecimal digits."""
    return traceparent[3:35]


def _random_hex(size: int) -> str:
    """Return random bytes as hex, never all zero: such ids are invalid by the specification."""
    while not any(random := secrets.token_bytes(size)):
        pass  # pragma: no cover - once in 2^64
    return random.hex()
