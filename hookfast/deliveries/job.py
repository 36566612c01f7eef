"""Jobs: one action on many deliveries. Messages between a job's workflow and its activities, and
the pace at which it works. Pure.

The messages are kept in workflow history: ids, numbers and sentences only. Fields may be added with
a default, never renamed or removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from hookfast.workflow_input import workflow_input

JOB_WORKFLOW: Final = "JobWorkflow"
MIN_RATE: Final = 0.1
"""Lowest rate of a job, in deliveries per second: a worker waits up to 10 s for each of them."""
MAX_RATE: Final = 1_000
"""Highest rate of a job, in deliveries per second."""


def job_workflow_id(job_id: str) -> str:
    """Return the id of a job's workflow."""
    return f"job/{job_id}"


class JobKind(StrEnum):
    """The request that created a job."""

    ACTION = "action"  # apply an action to the deliveries that a filter selects
    REDRIVE = "redrive"  # resend dead letters
    RECOVER = "recover"  # resend what failed at one endpoint within a period
    REPLAY = "replay"  # resend one event
    LIMITS = "limits"  # an endpoint's limits were raised: let waiting deliveries check them again


class JobStatus(StrEnum):
    """The status of a job."""

    PENDING = "pending"  # committed; no worker has begun it
    RUNNING = "running"
    DONE = "done"  # it has handled all deliveries that it selected
    CANCELLED = "cancelled"  # a person stopped it; earlier changes are kept
    FAILED = "failed"  # it cannot be carried out; `error` says why

    @property
    def finished(self) -> bool:
        """Whether nothing more happens."""
        return self not in (JobStatus.PENDING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job, counted in deliveries. `done`: the action was applied; a resend was
    also attempted, or waits because its endpoint is failing. `skipped`: the action did not apply,
    or the endpoint is disabled or deleted. `failed`: always 0 today."""

    status: JobStatus = JobStatus.PENDING
    total: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0

    @property
    def handled(self) -> int:
        """How many deliveries were handled so far."""
        return self.done + self.skipped + self.failed


@workflow_input
@dataclass(frozen=True, slots=True)
class JobInput:
    """Input of a job's workflow and activities. Everything else is in the job's row."""

    job_id: str
    action: str
    progress: JobProgress = field(default_factory=JobProgress)


class Spacing:
    """Turns at a fixed rate, evenly spaced. Missed turns are caught up, but at most those of the
    last `catch_up` seconds, so that a long wait is not followed by a burst.

    With 2 per second from second 0: one turn is due by 0, two by 0.5, three by 1.2.
    """

    def __init__(self, per_second: float, *, first_at: float, catch_up: float) -> None:
        self._gap = 1 / per_second
        self._next = first_at
        self._catch_up = catch_up

    @property
    def next_at(self) -> float:
        """The time of the next turn, in seconds; infinite after `stop`."""
        return self._next

    @property
    def stopped(self) -> bool:
        """Whether there are no more turns."""
        return self._next == math.inf

    def stop(self) -> None:
        """Give out no more turns."""
        self._next = math.inf

    def take(self, now: float, *, most: int) -> int:
        """Take the turns that are due by `now`, at most `most`, and return their number."""
        first = max(self._next, now - self._catch_up)
        if first > now or most <= 0:
            return 0
        taken = min(most, int((now - first) / self._gap) + 1)
        self._next = first + taken * self._gap
        return taken


class Rest:
    """The pause between two checks of a job's deliveries, in seconds: `shortest`, and doubled up to
    `longest` after each check without progress. Each check is a transaction, and many jobs may be
    waiting, because their resends are last in the order of service."""

    def __init__(self, *, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rest = shortest

    def after(self, *, moved: bool, until_next: float) -> float:
        """Return the pause after a check. `moved`: there was progress. `until_next`: seconds until
        the next turn, which the pause does not exceed; 0 or less if there is no room for more."""
        self._rest = self._shortest if moved else min(2 * self._rest, self._longest)
        if until_next <= 0:
            return self._rest
        return max(self._shortest, min(self._rest, until_next))
