"""What happens to a delivery: planned attempts, and the facts that `life` applies. Pure values.

Every fact about an attempt names the attempt as it was planned, so that a fact which comes after
the delivery has moved on can be recognised and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from hookfast.deliveries.outcome import Outcome, Reason
from hookfast.deliveries.retry_plan import PlanSpec


class Trigger(StrEnum):
    """Why an attempt was made."""

    FIRST = "first"
    RETRY = "retry"  # the retry plan's timer
    RESEND = "resend"  # a person or a job requested it
    PROBE = "probe"  # the circuit tests whether the endpoint has recovered


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlan:
    """One planned attempt. It equals another exactly if nothing that matters has changed.

    `in_plan`: it uses up the plan, and its failure moves the plan on. `resend_asked_at` is when the
    resend that it makes was requested; `position` is how many of the plan's attempts had counted
    before it.
    """

    number: int
    trigger: Trigger
    round: int
    in_plan: bool
    yields_to_circuit: bool = False
    resend_asked_at: datetime | None = None
    position: int = 0


class Action(StrEnum):
    """What a person, a job, (`RELEASE`) the endpoint's circuit or (`MOVE_UP`, `LEAVE_LANE`) its
    lane requests of a delivery."""

    PAUSE = "pause"
    RESUME = "resume"
    RESEND = "resend"
    RESEND_YIELDING = "resend_yielding"
    CANCEL = "cancel"
    RELEASE = "release"
    CHECK_LIMITS = "check_limits"  # its endpoint's limits were raised: check them now
    MOVE_UP = "move_up"  # it is the head of its lane from now on
    LEAVE_LANE = "leave_lane"  # a dead letter lets the next delivery of its lane go on


@dataclass(frozen=True, slots=True)
class Held:
    """The circuit, or its paused endpoint, holds this attempt. It is checked again at `until`."""

    attempt: AttemptPlan
    reason: Reason
    until: datetime


@dataclass(frozen=True, slots=True)
class Limited:
    """The endpoint's limits give this attempt a turn at `until`."""

    attempt: AttemptPlan
    until: datetime


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """The endpoint is disabled or deleted, or there is no body: nothing is sent."""

    attempt: AttemptPlan
    reason: Reason
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt was made, with this outcome. `jitter` in [0, 1) places the next delay; `plan` and
    the endpoint's `timeout_seconds` decide what follows."""

    attempt_id: str
    attempt: AttemptPlan
    started_at: datetime
    outcome: Outcome
    plan: PlanSpec
    timeout_seconds: float
    jitter: float

    @property
    def ended_at(self) -> datetime:
        """When the request had ended."""
        return self.started_at + timedelta(milliseconds=self.outcome.duration_ms)


Fact: TypeAlias = "Action | Held | Limited | Undeliverable | AttemptEnded"
