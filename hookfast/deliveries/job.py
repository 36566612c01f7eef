"""What a job's row, its workflow and its activities say to each other. Pure values.

A job does one thing to many deliveries. These values live in workflow history: ids, numbers and
sentences only. Fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

JOB_WORKFLOW: Final = "JobWorkflow"
MIN_RATE: Final = 0.1
"""Deliveries per second of the slowest job: a worker waits for each of them, and may wait 10 s."""
MAX_RATE: Final = 1_000


def job_workflow_id(job_id: str) -> str:
    """The id of a job's workflow."""
    return f"job/{job_id}"


class JobKind(StrEnum):
    """What a job was asked for by."""

    ACTION = "action"  # an action on whatever a filter chooses
    REDRIVE = "redrive"  # dead letters, sent again
    RECOVER = "recover"  # what failed at one endpoint in a window of time
    REPLAY = "replay"  # one event, sent again
    LIMITS = "limits"  # what waits at an endpoint's limits, told that they were raised


class JobStatus(StrEnum):
    """Where a job stands."""

    PENDING = "pending"  # committed; no worker has begun it
    RUNNING = "running"
    DONE = "done"  # it has dealt with everything it chose
    CANCELLED = "cancelled"  # someone stopped it; what it did until then stays done
    FAILED = "failed"  # it cannot be carried out; `error` says why

    @property
    def finished(self) -> bool:
        """Whether nothing more happens."""
        return self not in (JobStatus.PENDING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job has come. `done`: the delivery did as the action says, and where it was to be
    sent, its attempt was made (or waits for its endpoint, which is not well); `skipped`: the action
    made no sense for it, or its endpoint is disabled or deleted; `failed`: none, any more."""

    status: JobStatus = JobStatus.PENDING
    total: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0

    @property
    def handled(self) -> int:
        """Deliveries dealt with so far."""
        return self.done + self.skipped + self.failed


@dataclass(frozen=True, slots=True)
class JobInput:
    """A job workflow's input, and its activities': everything else is in the job's row."""

    job_id: str
    action: str
    progress: JobProgress = field(default_factory=JobProgress)


class Spacing:
    """Moments that are evenly spaced, `per_second` of them. What was late is caught up with, but at
    most `catch_up` seconds of it: after a longer wait there is no burst.

    With 2 a second from the second 0: by 0 one has come, by 0.5 two, by 1.2 three.
    """

    def __init__(self, per_second: float, *, first_at: float, catch_up: float) -> None:
        self._gap = 1 / per_second
        self._next = first_at
        self._catch_up = catch_up

    @property
    def next_at(self) -> float:
        """The first moment that is not taken, in seconds; infinite after `stop`."""
        return self._next

    @property
    def stopped(self) -> bool:
        """Whether no more moments come."""
        return self._next == math.inf

    def stop(self) -> None:
        """Let no more moments come."""
        self._next = math.inf

    def take(self, now: float, *, most: int) -> int:
        """How many moments have come by `now`, at most `most`; they are taken then."""
        first = max(self._next, now - self._catch_up)
        if first > now or most <= 0:
            return 0
        taken = min(most, int((now - first) / self._gap) + 1)
        self._next = first + taken * self._gap
        return taken


class Rest:
    """How many seconds a job rests between two looks at its deliveries: `shortest`, and twice as
    many after each look at which none had moved, up to `longest`. Each look is a transaction, and
    many jobs may be waiting, as what they ask for comes last in the order of service."""

    def __init__(self, *, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self._rest = shortest

    def after(self, *, moved: bool, until_next: float) -> float:
        """The rest after a look. `until_next`: the seconds until another delivery may be asked,
        which the rest does not exceed; 0 or less where there is no room for another one."""
        self._rest = self._shortest if moved else min(2 * self._rest, self._longest)
        if until_next <= 0:
            return self._rest
        return max(self._shortest, min(self._rest, until_next))
