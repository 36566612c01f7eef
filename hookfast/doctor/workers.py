"""Checks that workers are alive, and that the clocks of all machines agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.process import name_of
from hookfast.storage.database.server_clock import Skew
from hookfast.storage.figures import workers
from hookfast.storage.figures.workers import Heartbeat

_NAMED = 3
_REPORTED_FOR = timedelta(hours=1)
"""A worker that was lost and replaced is reported for this long after it was last seen."""
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


def count_alive(heartbeats: Sequence[Heartbeat], now: datetime) -> int:
    """Count the workers that were seen recently."""
    return sum(_is_alive(one, now) for one in heartbeats)


def check_workers(heartbeats: Sequence[Heartbeat], now: datetime) -> Iterator[Finding]:
    """Check the workers, their versions, and their clocks."""
    alive = [one for one in heartbeats if _is_alive(one, now)]
    if not alive:
        last = f" The last was seen at {_time(heartbeats[0].seen_at)} UTC." if heartbeats else ""
        yield fail(
            "workers",
            f"No worker is alive.{last}",
            todo="Start one: `hookfast worker` (or `hookfast up`). Until then, events are accepted "
            "and not delivered.",
        )
        return
    problems = [*_lost(heartbeats, alive, now), *_versions(alive, now)]
    saw = " ".join([_summary(alive), *(saw for saw, _ in problems)])
    if problems:
        yield warn("workers", saw, todo=" ".join(todo for _, todo in problems))
    else:
        yield ok("workers", saw)
    if heartbeats[0].seen_at > now + _SKEW_WARNING:
        ahead = (heartbeats[0].seen_at - now).total_seconds()
        saw = f"A worker's clock is {ahead:.1f} s ahead."
        yield warn("clock", saw, todo=_SET_CLOCKS)


def _is_alive(one: Heartbeat, now: datetime) -> bool:
    return one.seen_at > now - workers.ALIVE_FOR


def _summary(alive: Sequence[Heartbeat]) -> str:
    versions = Counter(one.version for one in alive)
    if len(versions) == 1:
        return f"{len(alive)} alive, version {alive[0].version}."
    counts = ", ".join(f"{count} of version {name}" for name, count in sorted(versions.items()))
    return f"{len(alive)} alive: {counts}."


def _lost(
    heartbeats: Sequence[Heartbeat], alive: Sequence[Heartbeat], now: datetime
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and what to do, if workers have ended without leaving. One that stops as
    asked deletes its row, so that a rollout is not among them."""
    lost = [one for one in heartbeats if not _is_alive(one, now)]
    later = sorted(one.started_at for one in alive)
    missing, replaced = [], []
    for one in lost:  # the latest first: the fewest workers have started after it
        if later and later[-1] >= one.seen_at:
            later.pop()
            replaced.append(one)
        else:
            missing.append(one)
    if missing:
        yield (
            f"{len(missing)} fewer than before: {_named(missing)} ended without leaving, or hangs.",
            "Find out why in the log (a kill, no memory, a lost machine) and start as many again. "
            "This is reported for a day.",
        )
    replaced = [one for one in replaced if one.seen_at > now - _REPORTED_FOR]
    if replaced:
        yield (
            f"{_named(replaced)} ended without leaving and was replaced.",
            "Find out why in the log (a kill, no memory, a lost machine). This is reported for an "
            "hour.",
        )


def _named(lost: Sequence[Heartbeat]) -> str:
    """Return the names of workers and when they were last seen."""
    named = ", ".join(
        f"{name_of(one.worker_id) or one.worker_id} (seen at {_time(one.seen_at)} UTC)"
        for one in lost[:_NAMED]
    )
    more = len(lost) - _NAMED
    return f"{named} and {more} more" if more > 0 else named


def _versions(alive: Sequence[Heartbeat], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and what to do, if there are several versions and no rollout."""
    rolling_out = max(one.started_at for one in alive) > now - _REPORTED_FOR
    if len({one.version for one in alive}) > 1 and not rolling_out:
        yield (
            "They run different versions, and none has started in the last hour.",
            "Finish the rollout (docs/upgrading.md).",
        )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
