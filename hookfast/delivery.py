"""What the delivery workflow, its activities and those who steer it say to each other.

These values live in workflow history for days: only ids, times, numbers and sentences for people.
Never a body, a secret or a header. Fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import Next, PlanSpec

WORKFLOW_TYPE: Final = "DeliveryWorkflow"
DELIVERIES_QUEUE: Final = "deliveries"
"""Task queue of the workflows and of the fast lane's local activities."""
RETRIES_QUEUE: Final = "retries"
"""Task queue of every other attempt."""


def workflow_id(delivery_id: str) -> str:
    """The id of a delivery's workflow."""
    return f"delivery/{delivery_id}"


class Trigger(StrEnum):
    """Why an attempt was made."""

    FIRST = "first"
    RETRY = "retry"  # the retry plan's timer
    RESEND = "resend"  # a person asked


@dataclass(slots=True)
class Progress:
    """How far a delivery has come; carried over continue-as-new and into a resend's new run.

    Times are workflow time. `retries` counts the retries of the plan that were made.
    """

    attempts: int = 0
    retries: int = 0
    first_attempt_at: datetime | None = None
    due_at: datetime | None = None
    paused: bool = False
    paused_at: datetime | None = None
    paused_seconds: float = 0.0
    resend: bool = False
    cancel: bool = False
    status: DeliveryStatus = DeliveryStatus.PENDING
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """A delivery workflow's input."""

    delivery_id: str
    endpoint_id: str
    plan: PlanSpec
    timeout_seconds: float
    deliver_at: datetime | None = None
    fast_lane: bool = True
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class AttemptOrder:
    """The attempt activity's input.

    `in_plan` is False for a manual resend in the middle of a plan: its failure changes nothing.
    `elapsed_seconds` runs from the first attempt, without the time a person paused.
    """

    delivery_id: str
    number: int
    trigger: Trigger
    plan: PlanSpec
    in_plan: bool
    retries_used: int
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """The attempt activity's result: what happened and what comes next.

    `next` is None when nothing changes (a failed manual resend) or when no request was made
    (`crowded`: the fast lane was full for this endpoint). `recorded` is False when the request was
    made and only its record failed: then the record is retried, never the request.
    """

    next: Next | None = None
    delay_seconds: float = 0.0
    reason: str | None = None
    error: str | None = None
    status_code: int | None = None
    crowded: bool = False
    recorded: bool = True
    attempt: AttemptFacts | None = None


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What an attempt's row is made of, as far as history may hold it. Present in a report only
    while the attempt still has to be recorded. `next_attempt_at` goes with a retry."""

    attempt_id: str
    delivery_id: str
    endpoint_id: str
    number: int
    retries: int
    trigger: Trigger
    started_at: datetime
    duration_ms: float
    result: str
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StatusNote:
    """Input of the activity that writes a status no attempt has written: paused, resumed,
    cancelled. `next_attempt_at` is None where nothing is planned."""

    delivery_id: str
    status: DeliveryStatus
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Answer of the `state` query, and the workflow's result."""

    status: DeliveryStatus
    attempts: int
    retries: int
    retries_planned: int
    next_attempt_at: datetime | None
    last_error: str | None
