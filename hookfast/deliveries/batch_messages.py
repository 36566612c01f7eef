"""What the batch workflow, its activities and the relay say to each other.

These values are in workflow history: only ids, times, numbers and sentences for people. Never a
body, a secret or a header. A batch of 100 has less than 100 KB of history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from hookfast.deliveries.life import Attempt, AttemptEnded, Trigger
from hookfast.deliveries.outcome import Outcome
from hookfast.deliveries.retry_plan import PlanSpec

WORKFLOW_TYPE: Final = "BatchWorkflow"
ATTEMPT: Final = "attempt_batch"
"""Activity: make the first attempts of a batch's deliveries."""
RECORD: Final = "record_batch"
"""Activity: commit attempts whose record could not be committed when they were made."""
MOST: Final = 100
"""Deliveries in one batch, at most. Their names fit into one search attribute, whose value may take
2 KiB (Temporal's `limit.searchAttributesSizeOfValueLimit`)."""
PER_ENDPOINT: Final = 16
"""Attempts that one batch has open to one endpoint at once."""
SLOW: Final = timedelta(seconds=1)
"""A request that has had no answer for so long leaves its batch, and goes on."""
_NAME_LENGTH: Final = 12


def workflow_id(batch_id: str) -> str:
    """The id of a batch's workflow."""
    return f"batch/{batch_id}"


def short_name(delivery_id: str) -> str:
    """The end of a delivery's id, by which the search attribute `HookDeliveries` finds its batch:
    48 random bits."""
    return delivery_id[-_NAME_LENGTH:]


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A first attempt that was made and is yet to be recorded. A hundred fit into a history: it
    does without what is the same in all of them, and without the plan, which is its endpoint's when
    it is recorded: none has begun."""

    delivery_id: str
    endpoint_id: str
    attempt_id: str
    round: int
    started_at: datetime
    outcome: Outcome
    timeout_seconds: float
    jitter: float

    @classmethod
    def of(cls, delivery_id: str, endpoint_id: str, ended: AttemptEnded) -> Self:
        """The attempt in this form."""
        return cls(
            delivery_id,
            endpoint_id,
            ended.attempt_id,
            ended.attempt.round,
            ended.started_at,
            ended.outcome,
            ended.timeout_seconds,
            ended.jitter,
        )

    def ended(self, plan: PlanSpec) -> AttemptEnded:
        """The fact that is recorded."""
        return AttemptEnded(
            attempt_id=self.attempt_id,
            attempt=Attempt(number=1, trigger=Trigger.FIRST, round=self.round, in_plan=True),
            started_at=self.started_at,
            outcome=self.outcome,
            plan=plan,
            timeout_seconds=self.timeout_seconds,
            jitter=self.jitter,
        )


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A batch's input: whose first attempts it makes, or what it only has to record."""

    batch_id: str
    delivery_ids: tuple[str, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordBatchInput:
    """Input of the activity that commits attempts whose batch could not."""

    unrecorded: tuple[Unrecorded, ...]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a batch: ids that were delivered, those that go on in workflows of their own
    with why, and those that wait again as if they had not been taken."""

    summary: str = ""
    delivered: Sequence[str] = ()
    continued: dict[str, str] = field(default_factory=dict)
    returned: Sequence[str] = ()
    unrecorded: Sequence[Unrecorded] = ()


def summary(count: int, *, delivered: int, continued: int, returned: int) -> str:
    """How the batch went, in a line: "100 first attempts: 97 delivered, 3 continue"."""
    parts = [f"{delivered} delivered"]
    if continued:
        parts.append(f"{continued} {'continues' if continued == 1 else 'continue'}")
    if returned:
        parts.append(f"{returned} not begun")
    return f"{count} first attempt{'' if count == 1 else 's'}: {', '.join(parts)}"
