"""Emits events from Temporal workflows: the activity for a worker, and the line for a workflow.

    worker = Worker(client, plugins=[HookfastPlugin(hookfast)], workflows=[…], task_queue=…)

    await emit("order.invoice.paid", {"invoice_id": "in_8Tx2"}, tenant_id=tenant)  # in a workflow

The idempotency key is made from the workflow's id, the run in which it began, and the activity's
id. So an event is emitted once, however often its activity is tried or reset, and although the
workflow is reset to a point before it. A run that continues as new, a retried workflow, and the
next workflow with the same id emit events of their own.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Unpack, cast

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from hookfast_client.aio.client import AsyncHookfast
from hookfast_client.batch import EmittedEvent
from hookfast_client.call import checked_json, checked_key
from hookfast_client.errors import TEMPORARY, ApiError, HookfastError
from hookfast_client.json_text import encode, rfc3339

__all__ = ["EmitInput", "HookfastActivities", "HookfastPlugin", "emit"]

_ACTIVITY = "hookfast_emit"
_ATTEMPT_SECONDS = 20.0
_ATTEMPT_TIMEOUT = timedelta(seconds=30)  # longer, so that the client's own error is the result
_INVALID = "invalid_input"
# The worker's key is wrong, not the event: repeat until somebody has set the right one.
_WORKERS_FAULT = frozenset({401, 403})


@dataclass(frozen=True, kw_only=True)
class EmitInput:
    """The first argument of the activity `hookfast_emit`: all of an event but its data, which is
    the second. `run_id` is the run in which the workflow began, which a reset does not change."""

    type: str
    tenant_id: str | None = None
    deliver_at: str | None = None
    ordering_key: str | None = None
    idempotency_key: str | None = None
    run_id: str | None = None


async def emit(
    type: str,
    data: Any,
    *,
    tenant_id: str | None = None,
    deliver_at: datetime | str | None = None,
    ordering_key: str | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[workflow.ActivityConfig],
) -> EmittedEvent:
    """Emit an event from workflow code, and return it once it is committed.

    `data` is any JSON value; bytes are JSON already and are delivered byte for byte. `options` are
    those of `workflow.execute_activity`. By default each attempt may take 30 seconds, and they go
    on until the event is committed or rejected.

    Raises ApplicationError with the type `invalid_input` for what cannot be sent, and ActivityError
    if the event is rejected: its cause is an ApplicationError, whose type is the problem's code.
    """
    try:
        content = checked_json(data) if isinstance(data, bytes) else encode(data)
        at = rfc3339(deliver_at) if isinstance(deliver_at, datetime) else deliver_at
        key = None if idempotency_key is None else checked_key(idempotency_key)
    except ValueError as error:  # which would make the workflow's task fail for ever
        raise ApplicationError(str(error), type=_INVALID, non_retryable=True) from None
    event = EmitInput(
        type=type,
        tenant_id=tenant_id,
        deliver_at=at,
        ordering_key=ordering_key,
        idempotency_key=key,
        run_id=workflow.info().original_execution_run_id,
    )
    defaults = workflow.ActivityConfig(
        start_to_close_timeout=_ATTEMPT_TIMEOUT, summary=f"emit {type}"
    )
    emitted = await workflow.execute_activity(
        _ACTIVITY,
        # a raw value keeps the bytes, and shows in Temporal's UI as the JSON that it is
        args=[event, RawValue(Payload(metadata={"encoding": b"json/plain"}, data=content))],
        # not the TypedDict, which Temporal's converter for pydantic rejects before Python 3.12
        result_type=dict[str, Any],
        **(defaults | options),
    )
    return cast("EmittedEvent", emitted)


class HookfastActivities:
    """The activities of a worker, which use its client. Raises TypeError for a blocking client."""

    def __init__(self, client: AsyncHookfast) -> None:
        if not isinstance(client, AsyncHookfast):
            raise TypeError("The activity is asynchronous: give it an AsyncHookfast.")
        # Temporal repeats them: its pauses survive a restart of the worker, and show in its UI.
        self._client = client.with_options(
            timeout=_ATTEMPT_SECONDS, attempt_timeout=_ATTEMPT_SECONDS, max_retries=0
        )

    @activity.defn(name=_ACTIVITY)
    async def emit(self, event: EmitInput, data: RawValue) -> dict[str, Any]:
        """Emit an event and return it. Raises ApplicationError, whose type is the problem's code
        and whose detail is a dict with `status`, `errors` and `request_id`; it is not retryable if
        the event itself is at fault."""
        try:
            emitted = await self._client.events.emit(
                event.type,
                _json(data.payload),
                tenant_id=event.tenant_id,
                deliver_at=event.deliver_at,
                ordering_key=event.ordering_key,
                idempotency_key=event.idempotency_key or _key(activity.info(), event.run_id),
            )
        except ValueError as error:
            raise ApplicationError(str(error), type=_INVALID, non_retryable=True) from None
        except ApiError as error:
            raise _rejected(error) from None
        except HookfastError as error:
            raise ApplicationError(str(error), type=type(error).__name__) from None
        return {**emitted}


class HookfastPlugin(SimplePlugin):
    """The plugin of a worker: it adds the activities, and lets workflows import this module as it
    is. Without a client it is for a worker or a replayer that only runs workflows."""

    def __init__(self, client: AsyncHookfast | None = None) -> None:
        super().__init__(
            "hookfast",
            activities=[] if client is None else [HookfastActivities(client).emit],
            workflow_runner=_with_this_package,
        )


def _with_this_package(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Return a runner whose sandbox does not import this package again for each workflow."""
    if runner is None:
        runner = SandboxedWorkflowRunner()
    if isinstance(runner, SandboxedWorkflowRunner):
        shared = runner.restrictions.with_passthrough_modules("hookfast_client")
        return dataclasses.replace(runner, restrictions=shared)
    return runner


def _key(info: activity.Info, run_id: str | None) -> str:
    """Return the idempotency key of an activity. A standalone one has no workflow."""
    run = run_id or info.workflow_run_id or info.activity_run_id
    text = "/".join(part for part in ("temporal", info.workflow_id, run, info.activity_id) if part)
    try:
        return checked_key(text)
    except ValueError:  # ids may be longer than a key, and have any characters
        return f"temporal/{hashlib.sha256(text.encode()).hexdigest()}"


def _json(payload: Payload) -> bytes:
    # workflows in other languages may send None as nothing at all
    return b"null" if payload.metadata.get("encoding") == b"binary/null" else payload.data


def _rejected(error: ApiError) -> ApplicationError:
    details = {
        "status": error.status,
        "errors": [dataclasses.asdict(one) for one in error.errors],
        "request_id": error.request_id,
    }
    events_fault = 400 <= error.status < 500 and error.status not in TEMPORARY | _WORKERS_FAULT
    delay = None if error.retry_after is None else timedelta(seconds=error.retry_after)
    return ApplicationError(
        error.detail,
        details,
        type=error.code or type(error).__name__,
        non_retryable=events_fault,
        next_retry_delay=delay,
    )
