"""Are workers alive, and do all machines go by the same time?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.storage.figures import server_facts, workers

Beats = list[tuple[datetime, str]]
"""When each worker was seen last, and its version; the latest first."""

_SKEW_NOTED = timedelta(seconds=1)
_SKEW_BAD = workers.ALIVE_FOR  # from here on living workers look dead to each other
_SET_CLOCKS = (
    "Run a time service (chrony, systemd-timesyncd) on every machine: leases, retries, signatures "
    "and ids go by its clock."
)


def look_at_clocks(skew: server_facts.Skew) -> Finding:
    """The database's clock against ours."""
    ahead = skew.ahead.total_seconds()
    saw = f"The database's clock is {abs(ahead):.3f} s {'ahead of' if ahead >= 0 else 'behind'} "
    saw += f"this machine's (±{skew.within.total_seconds():.3f} s)."
    apart = abs(skew.ahead) - skew.within
    if apart > _SKEW_BAD:
        return fail("clock", saw, todo=_SET_CLOCKS)
    if apart > _SKEW_NOTED:
        return warn("clock", saw, todo=_SET_CLOCKS)
    return ok("clock", saw)


def alive(beats: Beats, now: datetime) -> int:
    """How many workers were seen lately."""
    return sum(seen_at > now - workers.ALIVE_FOR for seen_at, _ in beats)


def look_at_workers(beats: Beats, now: datetime) -> Iterator[Finding]:
    """The workers, their versions, and their clocks against ours."""
    count = alive(beats, now)
    if not count:
        last = f" The last was seen at {beats[0][0]:%Y-%m-%d %H:%M:%S} UTC." if beats else ""
        yield fail(
            "workers",
            f"No worker is alive.{last}",
            todo="Start one: `hookfast worker` (or `hookfast up`). Events are accepted meanwhile, "
            "and none is delivered.",
        )
        return
    versions = sorted({version for _, version in beats[:count]})
    yield ok("workers", f"{count} alive, version {', '.join(versions)}.")
    if beats[0][0] > now + _SKEW_NOTED:
        ahead = (beats[0][0] - now).total_seconds()
        yield warn("clock", f"A worker's clock is {ahead:.1f} s ahead of ours.", todo=_SET_CLOCKS)
