"""The mail of one owner: gather notices, then send one message per kind. After a mail its kind
rests, and the notices of that time go into one digest.

The rows say what waits and what was sent. This workflow only waits, so nothing is lost or sent
twice when it continues as new, or ends and starts again.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from hookfast.clock import rfc3339
from hookfast.owners.digest import (
    WORKFLOW_TYPE,
    MailInput,
    MailState,
    SendInput,
    SendResult,
    Waiting,
)
from hookfast.owners.notice import NoticeKind
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_ROUNDS_PER_RUN = 100  # then continue as new: a run's history stays small enough to read
# A mail server that is away delays mail: keep trying.
_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=10), maximum_interval=timedelta(minutes=15)
)
_READ_TIMEOUT = timedelta(seconds=30)
# a minute for the mail server, the rest for the database before and after it
_SEND_TIMEOUT = timedelta(seconds=120)


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
class OwnerMailWorkflow:
    """The mail of one owner, while there is any. Signal: `wake`. Query: `state`."""

    @workflow.init
    def __init__(self, input: MailInput = NO_INPUT) -> None:
        if input is NO_INPUT:
            return  # `run` fails
        self._input = input
        self._woken = False
        self._due: dict[NoticeKind, datetime] = {}
        self._sent = 0
        self._refused = 0

    @workflow.run
    async def run(self, input: MailInput = NO_INPUT) -> MailState:
        """Send mail until nothing waits, and count what this run sent."""
        require(MailInput, input)
        for _ in range(_ROUNDS_PER_RUN):
            await self._gather()
            await self._read_waiting()
            await self._send_what_is_due()
            if self._due:
                await self._rest()
            elif not self._woken:
                return self.state()
        workflow.continue_as_new(self._input)

    @workflow.signal
    def wake(self) -> None:
        """Note that there are new notices for this owner."""
        self._woken = True

    @workflow.query
    def state(self) -> MailState:
        """Count what this run has sent."""
        return MailState(sent=self._sent, refused=self._refused)

    async def _gather(self) -> None:
        self._show("waiting for more notices")
        await workflow.sleep(
            timedelta(seconds=self._input.gather_seconds),
            summary="gather notices",
        )
        # A signal after this may be about rows that are too new for the read below.
        self._woken = False

    async def _read_waiting(self) -> None:
        """Read which kinds wait, and when each is due."""
        waiting: Waiting = await workflow.execute_activity(
            "waiting_mail",
            self._input,
            result_type=Waiting,
            start_to_close_timeout=_READ_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary="read waiting notices",
        )
        now = workflow.now()
        # Keep a time once set: it is by this workflow's clock, which may differ from the one that
        # the rest was computed with.
        self._due = {
            one.kind: self._due.get(one.kind, now + timedelta(seconds=one.rest_seconds))
            for one in waiting.kinds
        }

    async def _send_what_is_due(self) -> None:
        for kind in [kind for kind, due in self._due.items() if due <= workflow.now()]:
            self._show(f"sending: {_name(kind)}")
            result: SendResult = await workflow.execute_activity(
                "send_mail",
                SendInput(self._input.owner_hash, kind),
                result_type=SendResult,
                start_to_close_timeout=_SEND_TIMEOUT,
                retry_policy=_UNTIL_DONE,
                summary=f"mail: {_name(kind)}",
            )
            del self._due[kind]
            if result.refused:
                self._refused += 1
            elif result.endpoints:
                self._sent += 1

    async def _rest(self) -> None:
        kind, due = min(self._due.items(), key=lambda item: item[1])
        self._show(f"next digest ({_name(kind)}) at {rfc3339(due)}")
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._woken,
                timeout=max(due - workflow.now(), timedelta(0)),
                timeout_summary=f"next digest: {_name(kind)}",
            )

    def _show(self, what_next: str) -> None:
        """Set the text that the Temporal UI shows for this workflow."""
        workflow.set_current_details(
            f"{self._sent} mails sent, {self._refused} refused  \n{what_next}"
        )


def _name(kind: NoticeKind) -> str:
    return kind.value.replace("_", " ")
