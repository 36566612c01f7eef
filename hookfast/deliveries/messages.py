"""Messages between the delivery workflow, its activities and the relay.

They are kept in workflow history for days, so they hold only ids, times, numbers and sentences for
people: never a body, a secret or a header. Fields may be added with a default, never renamed or
removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hookfast.clock import rfc3339
from hookfast.deliveries.facts import Action, AttemptEnded
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.deliveries.wording import Tone, next_step
from hookfast.plural import pluralize
from hookfast.workflow_input import workflow_input

WORKFLOW_TYPE: Final = "DeliveryWorkflow"
STEP: Final = "step"
"""Activity that does what the delivery's row says, such as an attempt that is due."""
RECORD: Final = "record_attempt"
"""Activity that records an attempt whose record could not be committed by its step."""
WAKE: Final = "wake"
"""Signal: the row has changed; read it."""
CANCELLED_IN_ITS_ROW: Final = "The delivery was cancelled in its row."
"""Reason that a cancelled delivery's step gives when it cancels the workflow in Temporal."""
DELIVERIES_QUEUE: Final = "deliveries"
"""Task queue of the workflows and of the fast lane's local activities."""
RETRIES_QUEUE: Final = "retries"
"""Task queue of every other step."""


def workflow_id(delivery_id: str) -> str:
    """Return the id of a delivery's workflow."""
    return f"delivery/{delivery_id}"


class Urgency:
    """Order of service when slots or Temporal are short: the rank of a row in the outbox, and
    Temporal's priority key (1 is the highest)."""

    PERSON: Final = 1  # requested by a person, who waits
    RETRY: Final = 2  # due retries, probes, and deliveries that a circuit releases
    FIRST: Final = 3  # first attempts of new deliveries
    JOB: Final = 4  # resends by a job


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Result of the `state` query and of the workflow: the delivery after its last step."""

    status: DeliveryStatus
    attempts: int
    retries: int
    retries_planned: int
    next_attempt_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class StepResult:
    """The delivery's row after a step.

    `next_at` is when to step again (None: when a signal comes), and `waits_for` says why, for
    people. `held_since` is when it began to be held, paused or limited. `fast_lane`: the next step
    begins in the fast lane, as a local activity in the task of its timer. `lane_full`: nothing was
    done because the fast lane is full or too slow; step in the regular lane. `unrecorded`: the
    request was made and its record could not be committed in time; record it, and do not repeat the
    request.
    """

    status: DeliveryStatus = DeliveryStatus.PENDING
    reason: str | None = None
    attempts: int = 0
    retries: int = 0
    next_at: datetime | None = None
    waits_for: str = ""
    last_error: str | None = None
    fast_lane: bool = False
    lane_full: bool = False
    unrecorded: AttemptEnded | None = None
    held_since: datetime | None = None

    def state(self, retries_planned: int) -> DeliveryState:
        """Return the result of the query `state` after this step."""
        held = self.status is DeliveryStatus.HELD  # then `next_at` is only its next check
        return DeliveryState(
            status=self.status,
            attempts=self.attempts,
            retries=self.retries,
            retries_planned=retries_planned,
            next_attempt_at=None if held else self.next_at,
            last_error=self.last_error,
        )

    def text(self, retries_planned: int) -> str:
        """Return the text that the Temporal UI shows, in Markdown."""
        at = "" if self.next_at is None else f", {rfc3339(self.next_at)}"
        since = "" if self.held_since is None else f", waiting since {rfc3339(self.held_since)},"
        lines = [
            f"**{self.status.value}**{since} after {pluralize(self.attempts, 'attempt')}"
            f" ({self.retries} of {retries_planned} retries)",
            f"next: {self.waits_for}{at}" if self.waits_for else "",
            next_step(self.status, self.reason, tone=Tone.OPERATOR),
            f"last error: {self.last_error}" if self.last_error else "",
        ]
        return "  \n".join(line for line in lines if line)

    @property
    def failure(self) -> str:
        """Why the delivery ended without success, as a sentence."""
        last_error = f" Last error: {self.last_error}" if self.last_error else ""
        return f"{self.reason} after {self.attempts} attempts.{last_error}"


@dataclass(frozen=True, slots=True)
class Labels:
    """The search attributes of a delivery in Temporal, besides its endpoint and state."""

    tenant_id: str
    event_type: str


@workflow_input
@dataclass(frozen=True, slots=True)
class DeliveryInput:
    """Input of a delivery's workflow. It includes the plan, because a delivery keeps the plan that
    it started with. `now`: the row at the start; the first step is at `now.next_at`, or at once.
    `labels`: search attributes to set later; None if the workflow was started with them."""

    delivery_id: str
    endpoint_id: str
    plan: PlanSpec
    now: StepResult = field(default_factory=StepResult)
    labels: Labels | None = None


@dataclass(frozen=True, slots=True)
class RecordInput:
    """Input of the activity that records an attempt whose step could not."""

    delivery_id: str
    ended: AttemptEnded


@dataclass(frozen=True, slots=True)
class ReceivedSignals:
    """Actions that arrived as signals, sent by hand from the Temporal UI or CLI.

    `count` is how many this run has received so far, and `actions` are the last of them, so that a
    repeated step does not apply an action twice.
    """

    run_id: str
    count: int
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class StepInput:
    """Input of the step activity. `now` is the workflow's time, which the worker's clock may not
    have reached. `due` is the time of the timer that fired, if one did. `cancelled`: the workflow's
    cancellation was already requested in Temporal."""

    delivery_id: str
    plan: PlanSpec
    now: datetime
    due: datetime | None = None
    cancelled: bool = False
    signals: ReceivedSignals | None = None
