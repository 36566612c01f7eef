"""The shapes of the histories of batches, and of deliveries that continue after one."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock, patch

from temporalio.service import RPCError

from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from hookfast.deliveries.batch_messages import MOST, workflow_id
from tests.integration.delivery.conftest import Stack
from tests.support.waiting import eventually

QUICK = {"delays_seconds": [0.3, 0.3], "jitter": 0, "retry_on": "all"}


async def a_batch_that_delivered_all(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok")
    return await _batch_of(stack, await stack.deliver_together(endpoint, 5))


async def a_batch_of_which_some_continue(stack: Stack) -> str:
    endpoints = [await stack.endpoint(path) for path in ("/ok", "/status/503", "/slow/2")]
    return await _batch_of(stack, [await stack.deliver(one) for one in endpoints])


async def a_batch_that_was_added_to(stack: Stack) -> str:
    endpoint = await stack.endpoint("/ok")
    [first] = await stack.deliver_together(endpoint)
    await stack.until_status(first, "delivered")
    [second] = await stack.deliver_together(endpoint)
    await stack.until_status(second, "delivered")
    name = await _batch_of(stack, [second])
    assert name == await _batch_of(stack, [first])
    return name


async def a_batch_that_began_before_its_deliveries(stack: Stack) -> str:
    """The next batch is started when one is half full."""
    endpoint = await stack.endpoint("/ok")
    for count in (1, MOST // 2, MOST // 2 - 1, 1):
        ids = await stack.deliver_together(endpoint, count)
        await stack.until_all(ids, "delivered")
    return await _batch_of(stack, ids)


async def a_batch_that_was_recorded_later(stack: Stack) -> str:
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        delivery = await stack.deliver_until("delivered", "/ok")
    return await _batch_of(stack, [delivery])


async def a_batch_that_could_not_work(stack: Stack) -> str:
    attempt = BatchActivities._settle
    failures = iter([RuntimeError("a fault of ours")])

    async def failing_once(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await attempt(*args, **options)

    with patch.object(BatchActivities, "_settle", failing_once):
        return await _batch_of(stack, [await stack.deliver(await stack.endpoint("/ok"))])


async def an_attempt_that_its_batch_could_not_wait_for(stack: Stack) -> str:
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        delivery = await stack.deliver_until("delivered", "/slow/2")
    batch = (await stack.row(delivery)).batch_id
    return f"{workflow_id(batch)}/{delivery}"


async def retried_after_a_batch(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/fail-first/2", plan=QUICK))


async def gone_in_a_batch(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/status/410"))


async def answered_after_its_batch_had_ended(stack: Stack) -> str:
    return await stack.deliver(await stack.endpoint("/slow/2"))


async def _batch_of(stack: Stack, deliveries: list[str]) -> str:
    """Wait until Temporal has the batch of the last of these deliveries, and return its id."""

    async def begun() -> str | None:
        batch = (await stack.row(deliveries[-1])).batch_id
        if batch is not None:
            with contextlib.suppress(RPCError):
                await stack.client.get_workflow_handle(workflow_id(batch)).describe()
                return workflow_id(batch)
        return None

    return str(await eventually(begun))


BATCH_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    a_batch_that_delivered_all,
    a_batch_of_which_some_continue,
    a_batch_that_was_added_to,
    a_batch_that_began_before_its_deliveries,
    a_batch_that_was_recorded_later,
    a_batch_that_could_not_work,
    an_attempt_that_its_batch_could_not_wait_for,
    retried_after_a_batch,
    gone_in_a_batch,
    answered_after_its_batch_had_ended,
)
