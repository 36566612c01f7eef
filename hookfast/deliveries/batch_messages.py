"""Messages between the batch workflow, its activities and the relay.

They are kept in workflow history, so they hold only ids, times, numbers and sentences for people:
never a body, a secret or a header. A batch of 100 has less than 100 KB of history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger
from hookfast.deliveries.outcome import Outcome
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.workflow_input import workflow_input

WORKFLOW_TYPE: Final = "BatchWorkflow"
ATTEMPT: Final = "attempt_batch"
"""Activity that makes the first attempts of a batch's deliveries."""
RECORD: Final = "record_batch"
"""Activity that records attempts whose record could not be committed when they were made."""
MOST: Final = 100
"""Most deliveries in one batch. Their names fit into one search attribute, whose value may take
2 KiB (Temporal's `limit.searchAttributesSizeOfValueLimit`)."""
PER_ENDPOINT: Final = 16
"""Most requests to one endpoint that a batch waits for at once."""
SLOW: Final = timedelta(seconds=1)
"""A request without an answer for this long leaves its batch, and continues."""
_NAME_LENGTH: Final = 12


def workflow_id(batch_id: str) -> str:
    """Return the id of a batch's workflow."""
    return f"batch/{batch_id}"


def short_name(delivery_id: str) -> str:
    """Return the end of a delivery's id, 48 random bits. The search attribute `HookDeliveries` has
    it, to find the delivery's batch."""
    return delivery_id[-_NAME_LENGTH:]


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A first attempt that was made and is not recorded yet.

    A hundred of them fit into a history, because fields with the same value in all are left out. So
    is the retry plan: it has not begun, and the endpoint's plan at the time of recording applies.
    """

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
        """Convert an attempt to this form."""
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
        """Return the attempt as the fact to record, under the given retry plan."""
        return AttemptEnded(
            attempt_id=self.attempt_id,
            attempt=AttemptPlan(number=1, trigger=Trigger.FIRST, round=self.round, in_plan=True),
            started_at=self.started_at,
            outcome=self.outcome,
            plan=plan,
            timeout_seconds=self.timeout_seconds,
            jitter=self.jitter,
        )


@workflow_input
@dataclass(frozen=True, slots=True)
class BatchInput:
    """Input of the batch workflow: deliveries to attempt, or attempts that need only recording."""

    batch_id: str
    delivery_ids: tuple[str, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordBatchInput:
    """Input of the activity that records attempts whose batch could not."""

    unrecorded: tuple[Unrecorded, ...]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of a batch. `delivered` are ids; `continued` maps the ids of deliveries that go on
    without it to the reason; `returned` are ids that wait as if never batched."""

    summary: str = ""
    delivered: Sequence[str] = ()
    continued: dict[str, str] = field(default_factory=dict)
    returned: Sequence[str] = ()
    unrecorded: Sequence[Unrecorded] = ()


def summary(count: int, *, delivered: int, continued: int, returned: int) -> str:
    """Summarise a batch in one line: "100 first attempts: 97 delivered, 3 continue"."""
    parts = [f"{delivered} delivered"]
    if continued:
        parts.append(f"{continued} {'continues' if continued == 1 else 'continue'}")
    if returned:
        parts.append(f"{returned} not begun")
    return f"{count} first attempt{'' if count == 1 else 's'}: {', '.join(parts)}"
