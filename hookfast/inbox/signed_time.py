"""The time a provider signed: a number of seconds, and close enough to now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from hookfast.inbox.refused import Refused

_DECIMAL = re.compile(r"[0-9]{1,14}")  # `int` would take signs, underscores and other scripts


def require_fresh(
    text: str, *, header: str, now: datetime, tolerance: timedelta, milliseconds: bool = False
) -> None:
    """Raise Refused unless the Unix time `text` is within `tolerance` of `now`, both ways, edges
    included. Judge only what is signed, after the signature: an unsigned time proves nothing."""
    seconds = parse_time(text, header=header) / (1000 if milliseconds else 1)
    off = abs(now.timestamp() - seconds)
    if off > tolerance.total_seconds():
        raise not_now(off, tolerance=tolerance)


def not_now(off: float, *, tolerance: timedelta) -> Refused:
    """The refusal of what was signed so many seconds before or after now."""
    return Refused(
        "timestamp_out_of_tolerance",
        f"rightly signed, but {off:.0f} s away from now and only "
        f"{tolerance.total_seconds():.0f} s are tolerated: an old request was sent again, or a "
        "clock is wrong",
    )


def parse_time(text: str, *, header: str) -> int:
    """A Unix time in plain digits. Raises Refused (`timestamp_malformed`)."""
    if not _DECIMAL.fullmatch(text):
        raise Refused("timestamp_malformed", f"{header} holds no Unix time in plain digits")
    return int(text)
