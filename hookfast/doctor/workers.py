"""Checks that workers are alive, and that the clocks of all machines agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.storage.database.server_clock import Skew
from hookfast.storage.figures import workers

Heartbeats = list[tuple[datetime, str]]
"""The time each worker was last seen and its version, the latest first."""

_SKEW_WARNING = timedelta(seconds=1)
_SKEW_FAILURE = workers.ALIVE_FOR  # from here on, living workers look dead to each other
_SET_CLOCKS = (
    "Run a time service (chrony, systemd-timesyncd) on every machine, the database server's first: "
    "leases, retries, signatures and ids are by its clock; logs, traces and TLS by this machine's."
)


def check_database_clock(skew: Skew) -> Finding:
    """Compare the database's clock with this machine's."""
    ahead = skew.ahead.total_seconds()
    saw = f"The database's clock is {abs(ahead):.3f} s {'ahead of' if ahead >= 0 else 'behind'} "
    saw += f"this machine's (±{skew.within.total_seconds():.3f} s)."
    apart = abs(skew.ahead) - skew.within
    if apart > _SKEW_FAILURE:
        return fail("clock", saw, todo=_SET_CLOCKS)
    if apart > _SKEW_WARNING:
        return warn("clock", saw, todo=_SET_CLOCKS)
    return ok("clock", saw)


def count_alive(heartbeats: Heartbeats, now: datetime) -> int:
    """Count the workers that were seen recently."""
    return sum(seen_at > now - workers.ALIVE_FOR for seen_at, _ in heartbeats)


def check_workers(heartbeats: Heartbeats, now: datetime) -> Iterator[Finding]:
    """Check the workers, their versions, and their clocks."""
    count = count_alive(heartbeats, now)
    if not count:
        last = (
            f" The last was seen at {heartbeats[0][0]:%Y-%m-%d %H:%M:%S} UTC." if heartbeats else ""
        )
        yield fail(
            "workers",
            f"No worker is alive.{last}",
            todo="Start one: `hookfast worker` (or `hookfast up`). Until then, events are accepted "
            "and not delivered.",
        )
        return
    versions = sorted({version for _, version in heartbeats[:count]})
    yield ok("workers", f"{count} alive, version {', '.join(versions)}.")
    if heartbeats[0][0] > now + _SKEW_WARNING:
        ahead = (heartbeats[0][0] - now).total_seconds()
        saw = f"A worker's clock is {ahead:.1f} s ahead."
        yield warn("clock", saw, todo=_SET_CLOCKS)
