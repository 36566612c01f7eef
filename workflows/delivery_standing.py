"""Where a delivery stands, for everyone who looks: its row, where no attempt writes it, its search
attribute, and what the Temporal UI and the query `state` say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

from hookfast.delivery import RETRIES_QUEUE, DeliveryState, Progress, StatusNote, Unheard
from hookfast.outcome import DeliveryStatus
from workflows.undisturbed import undisturbed

HOOK_STATE = SearchAttributeKey.for_keyword("HookState")

UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)
ONCE = RetryPolicy(maximum_attempts=1)
"""Local activities are tried once and then handed to the regular lane: while the database is away,
a local retry would hold a workflow task, grow the history and keep a worker from shutting down."""
RECORD_TIMEOUT = timedelta(seconds=30)


class Standing:
    """Tells of one delivery. `cancel` hears of Temporal's cancel button while a note is written."""

    def __init__(
        self,
        delivery_id: str,
        now: Progress,
        *,
        retries_planned: int,
        cancel: Callable[[], None],
    ) -> None:
        self._delivery_id = delivery_id
        self._now = now
        self._retries_planned = retries_planned
        self._cancel = cancel

    @property
    def what_is_next(self) -> str:
        """The plan's next attempt, in words."""
        if self._now.attempts == 0:
            return "scheduled"
        return f"retry {self._now.retries + 1} of {self._retries_planned}"

    @property
    def this_retry(self) -> str:
        """The retry that is being made, in words."""
        return f"retry {self._now.retries} of {self._retries_planned}"

    def state(self) -> DeliveryState:
        """Where the delivery stands and when it goes next."""
        return DeliveryState(
            status=self._now.status,
            attempts=self._now.attempts,
            retries=self._now.retries,
            retries_planned=self._retries_planned,
            next_attempt_at=self._now.next_attempt_at,
            last_error=self._now.last_error,
        )

    async def note(
        self, status: DeliveryStatus, *, next_attempt_at: datetime | None
    ) -> Unheard | None:
        """Write a status that no attempt writes. Where an attempt that was not heard of has ended
        the delivery, that counts, and nothing is left to do."""
        self.become(status)
        unheard = await self._write(
            StatusNote(self._delivery_id, status, next_attempt_at, self._now.attempts)
        )
        if unheard is not None:
            self._now.cancel = True
            self.become(unheard.status)
        return unheard

    async def _write(self, note: StatusNote) -> Unheard | None:
        try:
            local = workflow.start_local_activity(
                "note_status",
                note,
                result_type=Unheard,
                start_to_close_timeout=RECORD_TIMEOUT,
                retry_policy=ONCE,
            )
            return await undisturbed(local, self._cancel)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            regular = workflow.start_activity(
                "note_status",
                note,
                result_type=Unheard,
                task_queue=RETRIES_QUEUE,
                start_to_close_timeout=RECORD_TIMEOUT,
                retry_policy=UNTIL_DONE,
                summary=f"note that it is {note.status.value}",
            )
            return await undisturbed(regular, self._cancel)

    def become(self, status: DeliveryStatus) -> None:
        """Have a status that an attempt has written."""
        if status is not self._now.status:
            self._now.status = status
            workflow.upsert_search_attributes([HOOK_STATE.value_set(status.value)])

    def show(self, what_next: str) -> None:
        """The text the Temporal UI shows for this workflow."""
        lines = [
            f"**{self._now.status.value}** after {self._now.attempts} attempts"
            f" ({self._now.retries} of {self._retries_planned} retries)",
            what_next,
            f"last error: {self._now.last_error}" if self._now.last_error else "",
        ]
        workflow.set_current_details("  \n".join(line for line in lines if line))
