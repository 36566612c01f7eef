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
    RESEND = "resend"  # a person or a job asked
    PROBE = "probe"  # the circuit asked whether the endpoint is back


@dataclass(frozen=True, slots=True)
class ResendOrder:
    """Argument of the signal `resend`. A person's single resend goes at once, whatever the circuit
    says; a gentle one (a job's, one of many) waits with the others where deliveries are held."""

    gently: bool = False


@dataclass(slots=True)
class PutOff:
    """An attempt that may not be made yet: `trigger` is what it will be. `held`: because of the
    endpoint's circuit or state, until a release; otherwise because of a limit. Either way it is
    tried again at `until` at the latest. `since` is when the waiting began; both workflow time.
    `gently`: see `ResendOrder`."""

    trigger: Trigger
    since: datetime
    until: datetime
    held: bool
    gently: bool = False


@dataclass(slots=True)
class Progress:
    """How far a delivery has come; carried over continue-as-new and into a resend's new run.

    Times are workflow time. `retries` counts the retries of the plan that were made;
    `paused_seconds` is the time since the first attempt that does not use up the plan, because
    somebody paused or because the endpoint was held or limited. `resend` and `probe` are wishes;
    one that the endpoint's limits put off waits for its turn, `resend_after` or `probe_after`.
    """

    attempts: int = 0
    retries: int = 0
    first_attempt_at: datetime | None = None
    due_at: datetime | None = None
    paused: bool = False
    paused_at: datetime | None = None
    paused_seconds: float = 0.0
    resend: bool = False
    gently: bool = False
    cancel: bool = False
    put_off: PutOff | None = None
    released: bool = False
    waited: bool = False
    probe: bool = False
    status: DeliveryStatus = DeliveryStatus.PENDING
    last_error: str | None = None
    resend_after: datetime | None = None
    resend_gently: bool = False
    probe_after: datetime | None = None

    @property
    def waiting_status(self) -> DeliveryStatus:
        """What a delivery is that waits for nothing but its next attempt."""
        return DeliveryStatus.RETRYING if self.attempts else DeliveryStatus.PENDING

    @property
    def next_attempt_at(self) -> datetime | None:
        """When it goes next; None when somebody has to say so."""
        moments = (self._planned_at, self.resend_after)
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def _planned_at(self) -> datetime | None:
        if self.paused_at is not None:
            return None
        if self.put_off is not None:
            return None if self.put_off.held else self.put_off.until
        return self.due_at

    def begin_again(self) -> None:
        """Begin the plan anew, as the next run of a delivery that has ended does: what was made
        stays made, and a resend that was asked for is to come."""
        self.retries = 0
        self.first_attempt_at = self.due_at = self.paused_at = self.put_off = None
        self.cancel = self.released = self.waited = self.probe = False
        self.paused_seconds = 0.0
        self.resend_after = self.probe_after = None

    def elapsed(self, now: datetime) -> float:
        """Seconds since the first attempt that use up the retry plan."""
        if self.first_attempt_at is None:
            return 0
        return (now - self.first_attempt_at).total_seconds() - self.paused_seconds

    def discount(self, since: datetime, now: datetime) -> None:
        """The time since then does not use up the retry plan."""
        if self.first_attempt_at is not None:
            waited = now - max(since, self.first_attempt_at)
            self.paused_seconds += waited.total_seconds()


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
    `elapsed_seconds` runs from the first attempt, without the time that was paused, held or
    limited. `released`: the circuit let it go while it drains. `waited`: its endpoint's limits told
    it to come back now. `gently`: see `ResendOrder`. `fresh`: its workflow has just been started,
    so it was not made before.
    """

    delivery_id: str
    number: int
    trigger: Trigger
    plan: PlanSpec
    in_plan: bool
    retries_used: int
    elapsed_seconds: float
    released: bool = False
    waited: bool = False
    gently: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """The attempt activity's result: what happened and what comes next.

    `next` is None when nothing changes (a failed manual resend) or when no request was made:
    `crowded`, the fast lane was full for this endpoint; `put_off_seconds`, the endpoint may not be
    sent to now (`held`: until it is released; else its limits say so), try again then; `refused`,
    it is disabled or deleted, which for an attempt of the plan is the end (`next` is DEAD).
    `recorded` is False when the request was made and only its record failed: then the record is
    retried, never the request.
    """

    next: Next | None = None
    delay_seconds: float = 0.0
    reason: str | None = None
    error: str | None = None
    status_code: int | None = None
    crowded: bool = False
    put_off_seconds: float | None = None
    held: bool = False
    recorded: bool = True
    attempt: AttemptFacts | None = None
    refused: bool = False


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
    cancelled. `next_attempt_at` is None where nothing is planned; `attempts` is how many the
    workflow has heard of (None from before it said so)."""

    delivery_id: str
    status: DeliveryStatus
    next_attempt_at: datetime | None = None
    attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Unheard:
    """Answer to a `StatusNote` that was not written: the delivery has ended so, with an attempt of
    which its workflow has not heard. What a local activity did is lost to the workflow when a
    signal comes just before its end, or its worker dies: it begins once more from before."""

    status: DeliveryStatus
    attempts: int


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """Answer of the `state` query, and the workflow's result."""

    status: DeliveryStatus
    attempts: int
    retries: int
    retries_planned: int
    next_attempt_at: datetime | None
    last_error: str | None
