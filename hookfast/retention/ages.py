"""How long rows are kept, and the messages between retention's workflow and activities. Pure.

A run deletes whole days (UTC): all rows from before the day in which their age ends. So a row may
live up to a day longer, and PostgreSQL can drop a day's partition at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from hookfast.workflow_input import workflow_input

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
"""The sweeps of a run, in order: a delivery is deleted before its event, an idempotency key before
the event that it answers with, and a received request after the event created from it."""

FIGURES: Final = "figures"
"""What has an age beside the sweeps. Figures are deleted where they are added up."""

SHORTEST: Final = timedelta(days=1)
"""Shortest age that can be set: a day is over before it is deleted."""

FIGURES_SHORTEST: Final = timedelta(days=41)
"""Shortest age of figures that can be set: hours are added to their day after forty days."""

RUNS_KEPT: Final = timedelta(days=365)
"""How long the rows about retention's own runs are kept."""

_NOT_LONGER: Final = (
    ("attempt_retention", "delivery_retention", "an attempt is shown with its delivery"),
    ("delivery_retention", "event_retention", "a delivery needs its event to be sent again"),
    ("idempotency_retention", "event_retention", "a repeated request is answered with its event"),
)


@workflow_input
@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionInput:
    """Input of the workflow. `run_id` is the id of the run's row, once it exists. `left` are the
    sweeps that are left when the workflow continues as new, which it does after this many
    `activities` to keep its history readable."""

    dry_run: bool = False
    run_id: str | None = None
    left: tuple[str, ...] | None = None
    activities: int = 200


@dataclass(frozen=True, slots=True)
class RetentionRunInput:
    """Input of an activity that works for a run."""

    run_id: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class SweepInput:
    """Input of the activity that makes one sweep of a run."""

    run_id: str
    name: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Swept:
    """The progress of a sweep: rows deleted so far, rows past their age that are still needed, and
    partitions dropped (their rows are among the deleted). In a dry run: what would be deleted."""

    name: str
    done: bool
    deleted: int = 0
    kept: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of the preparation: partitions created for the days ahead, endpoints whose gauges were
    compared with the rows, gauges that were corrected, and hours whose figures differ."""

    partitions: int = 0
    endpoints: int = 0
    corrected: int = 0
    hours: int = 0


@dataclass(frozen=True, slots=True)
class RetentionState:
    """Result of the workflow."""

    run_id: str
    swept: tuple[Swept, ...]


def cutoff(now: datetime, age: timedelta) -> datetime | None:
    """Return the start of the day (UTC) in which `age` ends; rows from before it are deleted. None
    if `age` is 0: nothing is deleted. 30 days on 21 November at 03:00 give 22 October at 00:00."""
    return midnight(now - age) if age else None


def cutoffs(now: datetime, ages: Mapping[str, timedelta]) -> dict[str, datetime | None]:
    """Return the cutoff of each sweep. Keys of the inbox have no age: each has its own end."""
    return {name: now if name == "inbox_keys" else cutoff(now, ages[name]) for name in SWEEPS}


def midnight(at: datetime) -> datetime:
    """Return the start of the day, in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def errors_in(ages: Mapping[str, timedelta]) -> list[str]:
    """Return what is wrong with these ages, with the names of their settings, and what to do."""
    found = [
        f"{variable(name)} is shorter than a day: set at least 86400 (seconds), or 0 to keep for "
        "ever"
        for name, age in ages.items()
        if age and age < SHORTEST
    ]
    figures = ages["figure_retention"]
    if SHORTEST <= figures < FIGURES_SHORTEST:
        found.append(
            f"{variable('figure_retention')} ({_in_days(figures)}) is shorter than 41 days, but "
            "figures are added up by day after 40 days: set at least 3542400 (seconds), or 0 to "
            "keep for ever"
        )
    for short, long, why in _NOT_LONGER:
        if ages[long] and (not ages[short] or ages[short] > ages[long]):
            found.append(
                f"{variable(short)} ({_in_days(ages[short])}) is longer than {variable(long)} "
                f"({_in_days(ages[long])}), but {why}: shorten the first or lengthen the second"
            )
    return found


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"HOOKFAST_{name.upper()}"


def _in_days(age: timedelta) -> str:
    return f"{age / timedelta(days=1):g} days" if age else "for ever"
