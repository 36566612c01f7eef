"""Emitting from workflows: once for each activity, whatever is repeated or reset."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetActivityRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from hookfast_client import Hookfast
from hookfast_client.temporal import EmitInput, HookfastActivities, HookfastPlugin
from tests.integration.client_temporal.conftest import ONE_RETRY, TASK_QUEUE, Stack
from tests.integration.client_temporal.emitting_workflow import TYPE, EmittingWorkflow
from tests.support.faulty_proxy import Answer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_retry_after_a_lost_answer_emits_once(stack: Stack) -> None:
    stack.proxy.next("lose the answer", "lose the answer")
    handle = await stack.start(stack.plan())
    emitted = await handle.result()
    assert emitted["replayed"]
    assert await stack.events() == [emitted["id"]]
    key = f"temporal/{stack.workflow_id}/{handle.first_execution_run_id}/1"
    assert stack.keys() == [key] * 3


async def test_retry_after_a_lost_completion_emits_once(idle_stack: Stack) -> None:
    stack = idle_stack

    class Forgetful(HookfastActivities):
        @activity.defn(name="hookfast_emit")
        async def emit(self, event: EmitInput, data: RawValue) -> dict[str, Any]:
            emitted = await super().emit(event, data)
            if activity.info().attempt == 1:
                await asyncio.Event().wait()  # until its time is over
            return emitted

    async with Worker(
        stack.client,
        task_queue=TASK_QUEUE,
        workflows=[EmittingWorkflow],
        activities=[Forgetful(stack.hookfast).emit],
        plugins=[HookfastPlugin()],
    ):
        emitted = await stack.run(stack.plan())
    assert emitted["replayed"]
    assert await stack.events() == [emitted["id"]]


async def test_reset_activity_emits_once(stack: Stack) -> None:
    stack.proxy.next("lose the answer")
    handle = await stack.start(stack.plan(pause=3600))

    async def failed() -> bool:
        [waiting] = (await handle.describe()).raw_description.pending_activities or [None]
        return waiting is not None and waiting.HasField("last_failure")

    await eventually(failed)
    execution = WorkflowExecution(workflow_id=handle.id)
    await stack.client.workflow_service.reset_activity(
        ResetActivityRequest(namespace="default", execution=execution, id="1")
    )
    emitted = await handle.result()
    assert emitted["replayed"]
    assert await stack.events() == [emitted["id"]]


async def test_reset_workflow_emits_once_and_its_repeated_reset_too(stack: Stack) -> None:
    handle = await stack.start(stack.plan())
    emitted = await handle.result()
    for _ in range(2):
        again = await _reset(stack, handle)
        assert (await again.result())["id"] == emitted["id"]
        handle = again
    assert await stack.events() == [emitted["id"]]
    assert len(stack.keys()) == 3
    assert len(set(stack.keys())) == 1


async def _reset(stack: Stack, handle: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
    """Reset a workflow to its first task, and return the new run."""
    answer = await stack.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id),
            workflow_task_finish_event_id=4,  # scheduled, started, completed: 2, 3, 4
            reason="test",
            request_id=str(uuid.uuid4()),
        )
    )
    assert answer.run_id not in (handle.result_run_id, handle.run_id)
    return stack.client.get_workflow_handle(handle.id, run_id=answer.run_id)


async def test_next_workflow_with_the_same_id_emits_an_event_of_its_own(stack: Stack) -> None:
    first = await stack.run(stack.plan())
    second = await stack.run(stack.plan())
    assert await stack.events() == [first["id"], second["id"]]


@pytest.mark.slow  # the server lets a second pass before each run
async def test_further_runs_of_a_workflow_emit_events_of_their_own(stack: Stack) -> None:
    await stack.run(stack.plan(rounds=2))  # continues as new
    assert len(await stack.events()) == 3
    await stack.run(stack.plan(fails=True), retry_policy=ONE_RETRY)
    assert len(await stack.events()) == 5


@pytest.mark.slow  # it continues as new
async def test_own_idempotency_key_spans_runs(stack: Stack) -> None:
    await stack.run(stack.plan(key="invoice-1", rounds=1))
    assert len(await stack.events()) == 1
    assert set(stack.keys()) == {"invoice-1"}


async def test_data_is_delivered_byte_for_byte(stack: Stack) -> None:
    text = '{"price": 1.10,  "n": 12345678901234567890123, "ü": "\\u00e9"}'
    emitted = await stack.run(stack.plan(data=text))
    [request] = [one for one in stack.proxy.requests if one.path == "/v1/events"]
    assert text.encode() in request.body
    assert (await stack.hookfast.events.get(emitted["id"]))["data"] == json.loads(text)


async def test_rejected_event_fails_at_once_with_the_problems_code(stack: Stack) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await stack.run(stack.plan(type="no.such.type"))
    rejected = failed.value.cause
    assert isinstance(rejected, ActivityError)
    cause = rejected.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.non_retryable) == ("unknown_event_type", True)
    [details] = cause.details
    assert details["status"] == 422
    assert details["errors"][0]["pointer"] == "/type"
    assert details["request_id"].startswith("req_")
    assert len(stack.keys()) == 1


async def test_what_is_not_json_fails_the_workflow_and_not_its_task(stack: Stack) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await stack.run(stack.plan(data="[1, NaN"))
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.non_retryable) == ("invalid_input", True)
    assert stack.keys() == []


async def test_faults_that_are_not_the_events_are_tried_again(stack: Stack) -> None:
    problem = b'{"code": "unauthenticated", "detail": "There is no such key."}'
    later = {"Retry-After": "1"}
    stack.proxy.next(Answer(401, problem), Answer(500), Answer(503, headers=later), "reset")
    handle = await stack.start(stack.plan())
    emitted = await handle.result()
    assert await stack.events() == [emitted["id"]]
    assert len(stack.keys()) == 5
    started = [one async for one in handle.fetch_history_events()]
    assert started[-1].event_time.ToNanoseconds() - started[0].event_time.ToNanoseconds() > 1e9


async def test_emits_without_the_plugin_and_with_other_runners_and_converters(
    idle_stack: Stack,
) -> None:
    stack = idle_stack
    shared = SandboxRestrictions.default.with_passthrough_modules("hookfast_client")
    plain: dict[str, Any] = {
        "activities": [HookfastActivities(stack.hookfast).emit],
        "workflow_runner": SandboxedWorkflowRunner(restrictions=shared),
    }
    plugin: dict[str, Any] = {"plugins": [HookfastPlugin(stack.hookfast)]}
    unsandboxed = plugin | {"workflow_runner": UnsandboxedWorkflowRunner()}
    for number, options in enumerate((plain, plugin, unsandboxed, {})):
        config = stack.client.config()
        if number:
            config["data_converter"] = pydantic_data_converter
        if not options:  # a client's plugins are also those of its workers
            config["plugins"] = plugin["plugins"]
        client = Client(**config)
        async with Worker(client, task_queue=TASK_QUEUE, workflows=[EmittingWorkflow], **options):
            emitted = await stack.run(stack.plan())
        assert (await stack.events())[number:] == [emitted["id"]]


class _Codec(PayloadCodec):
    """Stands for encryption: it turns the bytes of every payload around."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": b"turned"}, data=one.SerializeToString()[::-1])
            for one in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(one.data[::-1]) for one in payloads]


async def test_payload_codec_keeps_the_data_out_of_the_history(idle_stack: Stack) -> None:
    stack = idle_stack
    config = stack.client.config()
    config["data_converter"] = dataclasses.replace(DataConverter.default, payload_codec=_Codec())
    stack.client = Client(**config)
    async with Worker(
        stack.client,
        task_queue=TASK_QUEUE,
        workflows=[EmittingWorkflow],
        plugins=[HookfastPlugin(stack.hookfast)],
    ):
        handle = await stack.start(stack.plan(data='{"card": "only-for-the-receiver"}'))
        emitted = await handle.result()
    event = await stack.hookfast.events.get(emitted["id"])
    assert event["data"] == {"card": "only-for-the-receiver"}
    history = await handle.fetch_history()
    stored = b"".join(one.SerializeToString() for one in history.events)
    assert b"hookfast_emit" in stored
    assert b"only-for-the-receiver" not in stored


async def test_activity_without_a_workflow_emits_once(stack: Stack) -> None:
    stack.proxy.next("lose the answer")
    event = EmitInput(type=TYPE, tenant_id=stack.tenant_id)
    emitted = await stack.client.execute_activity(
        "hookfast_emit",
        args=[event, None],
        id="nightly",
        task_queue=TASK_QUEUE,
        start_to_close_timeout=timedelta(seconds=30),
        result_type=dict[str, Any],
    )
    assert await stack.events() == [emitted["id"]]
    assert (await stack.hookfast.events.get(emitted["id"]))["data"] is None
    [key] = set(stack.keys())
    assert key.endswith("/nightly")


async def test_key_of_ids_that_no_header_can_carry_is_their_hash(stack: Stack) -> None:
    stack.workflow_id = "Bestellung/ü " + "x" * 300
    stack.proxy.next("lose the answer")
    emitted = await stack.run(stack.plan())
    assert await stack.events() == [emitted["id"]]
    [key] = set(stack.keys())
    assert len(key) == len("temporal/") + 64


def test_blocking_client_is_rejected_at_once() -> None:
    with (
        Hookfast("http://127.0.0.1:9", "hf_key") as blocking,
        pytest.raises(TypeError, match="AsyncHookfast"),
    ):
        HookfastPlugin(blocking)


async def test_replays(stack: Stack) -> None:
    handle = await stack.start(stack.plan())
    await handle.result()
    replayer = Replayer(workflows=[EmittingWorkflow], plugins=[HookfastPlugin()])
    await replayer.replay_workflow(await handle.fetch_history())
