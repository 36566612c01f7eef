"""Check the Unix time that a provider signed: well-formed, and close enough to now."""

from __future__ import annotations

import re
from datetime import datetime

from hookfast.inbox.errors import RequestRejected

_DECIMAL = re.compile(r"[0-9]{1,14}")  # `int` would take signs, underscores and other scripts


def require_fresh(
    text: str, *, header: str, now: datetime, tolerance_seconds: int, milliseconds: bool = False
) -> None:
    """Raise RequestRejected unless the Unix time `text` is at most `tolerance_seconds` before or
    after `now`. Call it after verifying a signature of the time: an unsigned one proves nothing."""
    seconds = parse_time(text, header=header) / (1000 if milliseconds else 1)
    difference = abs(now.timestamp() - seconds)
    if difference > tolerance_seconds:
        raise out_of_tolerance(difference, tolerance_seconds=tolerance_seconds)


def out_of_tolerance(difference: float, *, tolerance_seconds: int) -> RequestRejected:
    """Return the error for a request signed `difference` seconds before or after now."""
    return RequestRejected(
        "timestamp_out_of_tolerance",
        f"the signature is correct, but its time is {difference:.0f} s away from now and only "
        f"{tolerance_seconds} s are allowed: an old request was sent again, or a "
        "clock is wrong",
    )


def parse_time(text: str, *, header: str) -> int:
    """Parse a Unix time in plain digits. Raises RequestRejected (`timestamp_malformed`)."""
    if not _DECIMAL.fullmatch(text):
        raise RequestRejected("timestamp_malformed", f"{header} is not a Unix time in plain digits")
    return int(text)
