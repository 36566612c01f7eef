"""What retention keeps and for how long, and what its workflow and activities say to each other.
Pure.

A run deletes whole days (UTC): what is older than its age by the start of the day at which the age
ends. A row may so live up to a day longer, and PostgreSQL can drop a day's partition at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

WORKFLOW_TYPE: Final = "RetentionWorkflow"
SCHEDULE_ID: Final = "hookfast-retention"
WORKFLOW_ID: Final = "retention"
"""Start of each run's workflow id; Temporal adds the time it was scheduled for."""

SWEEPS: Final = (
    "attempts",
    "dead_letters",
    "deliveries",
    "idempotency_keys",
    "events",
    "inbox",
    "inbox_keys",
    "notices",
    "jobs",
    "audit",
)
"""What a run goes through, in this order: a delivery goes before its event, an idempotency key
before the event it answers with, a received request after the event that was made of it."""

COUNTED: Final = ("attempts", "dead_letters", "deliveries")
"""What is counted by day before it goes."""

SHORTEST: Final = timedelta(days=1)
"""The shortest age that can be set: a day is over, and counted, before it goes."""

RUNS_KEPT: Final = timedelta(days=365)
"""How long the rows that tell of retention's own runs are kept."""

_NOT_LONGER: Final = (
    ("attempt_retention", "delivery_retention", "an attempt is shown with its delivery"),
    ("delivery_retention", "event_retention", "a delivery needs its event to be sent again"),
    ("idempotency_retention", "event_retention", "a repeated request is answered with its event"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionInput:
    """The workflow's input. `run_id` names the row that tells of the run, once there is one; `left`
    is what is still to be swept when it continues as new, which it does after so many `activities`:
    a history that one can read."""

    dry_run: bool = False
    run_id: str | None = None
    left: tuple[str, ...] | None = None
    activities: int = 200


@dataclass(frozen=True, slots=True)
class RetentionRunInput:
    """Which run an activity works for."""

    run_id: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class SweepInput:
    """What an activity sweeps, and for which run."""

    run_id: str
    name: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Swept:
    """How far a sweep has come: rows deleted so far, rows past their age that something keeps, and
    partitions dropped (their rows are among the deleted). In a dry run: what would be."""

    name: str
    done: bool
    deleted: int = 0
    kept: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What came before anything went: partitions made for the days ahead, days counted."""

    partitions: int = 0
    days: int = 0


@dataclass(frozen=True, slots=True)
class RetentionState:
    """The workflow's result."""

    run_id: str
    swept: tuple[Swept, ...]


def cutoff(now: datetime, age: timedelta) -> datetime | None:
    """Rows from before this go: the start of the day (UTC) at which `age` ends. None: nothing
    does, because `age` is 0. E.g. 30 days on 21 November at 03:00 give 22 October at 00:00."""
    return midnight(now - age) if age else None


def cutoffs(now: datetime, ages: Mapping[str, timedelta]) -> dict[str, datetime | None]:
    """The cutoff of each of `SWEEPS`. The keys of the inbox have no age: each says when it ends."""
    return {name: now if name == "inbox_keys" else cutoff(now, ages[name]) for name in SWEEPS}


def midnight(at: datetime) -> datetime:
    """The start of the day, in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def faults(ages: Mapping[str, timedelta]) -> list[str]:
    """What is wrong with these ages, by the names of their settings, and what to do about it."""
    found = [
        f"{variable(name)} is shorter than a day: set at least 86400 (seconds), or 0 to keep for "
        "ever"
        for name, age in ages.items()
        if age and age < SHORTEST
    ]
    for short, long, why in _NOT_LONGER:
        if ages[long] and (not ages[short] or ages[short] > ages[long]):
            found.append(
                f"{variable(short)} ({_told(ages[short])}) is longer than {variable(long)} "
                f"({_told(ages[long])}), but {why}: shorten the first or lengthen the second"
            )
    return found


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"HOOKFAST_{name.upper()}"


def _told(age: timedelta) -> str:
    return f"{age / timedelta(days=1):g} days" if age else "for ever"
