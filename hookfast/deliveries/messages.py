"""What the delivery workflow, its activities and the relay say to each other.

These values live in workflow history for days: only ids, times, numbers and sentences for people.
Never a body, a secret or a header. Fields may be added with a default, never renamed or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hookfast.clock import rfc3339
from hookfast.deliveries.life import Action, AttemptEnded
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.deliveries.retry_plan import PlanSpec

WORKFLOW_TYPE: Final = "DeliveryWorkflow"
STEP: Final = "step"
"""Activity: look at the row and do what it says; make the attempt if one is due."""
RECORD: Final = "record_attempt"
"""Activity: commit an attempt whose record could not be committed by its step."""
WAKE: Final = "wake"
"""Signal: the row has changed; look at it."""
CANCELLED_IN_ITS_ROW: Final = "The delivery was cancelled in its row."
"""Reason of the cancellation that ends the workflow of a cancelled delivery as Canceled."""
DELIVERIES_QUEUE: Final = "deliveries"
"""Task queue of the workflows and of the fast lane's local activities."""
RETRIES_QUEUE: Final = "retries"
"""Task queue of every other step."""


def workflow_id(delivery_id: str) -> str:
    """The id of a delivery's workflow."""
    return f"delivery/{delivery_id}"


class Urgency:
    """Order of service, where slots or Temporal are short: the rank of a row in the outbox, and
    Temporal's priority key (1 is the highest)."""

    PERSON: Final = 1  # a person waits for it
    RETRY: Final = 2  # due retries, probes, and what a circuit lets go
    FIRST: Final = 3  # new first attempts
    JOB: Final = 4  # one of many


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Answer of the `state` query, and the workflow's result, as of its last step."""

    status: DeliveryStatus
    attempts: int
    retries: int
    retries_planned: int
    next_attempt_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class StepResult:
    """How the delivery's row stands after a step.

    `next_at` is when to step again (None: when a signal comes) and `waits_for` says why, for
    people. `lane_full`: nothing was done, the fast lane is full or too slow; step in the regular
    lane. `unrecorded`: the request was made and its record could not be committed in time: that is
    to be done, and the request not to be repeated.
    """

    status: DeliveryStatus = DeliveryStatus.PENDING
    reason: str | None = None
    attempts: int = 0
    retries: int = 0
    next_at: datetime | None = None
    waits_for: str = ""
    last_error: str | None = None
    lane_full: bool = False
    unrecorded: AttemptEnded | None = None

    def state(self, retries_planned: int) -> DeliveryState:
        """What the query `state` answers after this step."""
        held = self.status is DeliveryStatus.HELD  # then it is when it looks by itself
        return DeliveryState(
            status=self.status,
            attempts=self.attempts,
            retries=self.retries,
            retries_planned=retries_planned,
            next_attempt_at=None if held else self.next_at,
            last_error=self.last_error,
        )

    def text(self, retries_planned: int) -> str:
        """What the Temporal UI shows, in Markdown."""
        at = "" if self.next_at is None else f", {rfc3339(self.next_at)}"
        lines = [
            f"**{self.status.value}** after {self.attempts} attempts"
            f" ({self.retries} of {retries_planned} retries)",
            f"next: {self.waits_for}{at}" if self.waits_for else "",
            f"last error: {self.last_error}" if self.last_error else "",
        ]
        return "  \n".join(line for line in lines if line)

    @property
    def failure(self) -> str:
        """Why it ended without success."""
        said = f" Last error: {self.last_error}" if self.last_error else ""
        return f"{self.reason} after {self.attempts} attempts.{said}"


@dataclass(frozen=True, slots=True)
class Labels:
    """What Temporal's search finds a delivery by, besides its endpoint and state."""

    tenant_id: str
    event_type: str


@dataclass(frozen=True, slots=True)
class DeliveryInput:
    """A delivery workflow's input. The plan is part of it: a delivery keeps the plan it started
    with. `fast_lane`: the first step is a local activity. `now`: how the row stood; the first step
    is at `now.next_at`, or at once. `labels` are yet to be told to Temporal's search; None: it was
    started with them."""

    delivery_id: str
    endpoint_id: str
    plan: PlanSpec
    fast_lane: bool = False
    now: StepResult = field(default_factory=StepResult)
    labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Input of the activity that commits an attempt whose step could not."""

    delivery_id: str
    ended: AttemptEnded


@dataclass(frozen=True, slots=True)
class ReceivedSignals:
    """Actions that arrived as signals, sent by hand from the Temporal UI or CLI.

    `count` of them were received by this run so far, and `actions` are the last of those, so that a
    repeated step does not apply one twice.
    """

    run_id: str
    count: int
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class StepInput:
    """The step activity's input. `now` is the workflow's time, which the worker's clock may not
    have reached. `due` is what its timer was set to, where that led here. `fresh`: the workflow has
    just been started, so that what the relay read counts.
    `cancelled`: Temporal knows of the workflow's cancellation."""

    delivery_id: str
    plan: PlanSpec
    now: datetime
    due: datetime | None = None
    fresh: bool = False
    cancelled: bool = False
    signals: ReceivedSignals | None = None
