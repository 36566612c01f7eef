"""Deliveries that come while a batch is at work join it, and lose nothing by that."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from hookfast.deliveries import batch_messages
from hookfast.deliveries.batch_messages import BatchResult
from hookfast.dispatch import batches, relay
from hookfast.dispatch.batches import Batch
from tests.integration.delivery.conftest import Stack, eventually

pytestmark = pytest.mark.anyio

PATIENT = {"delays_seconds": [600], "jitter": 0, "retry_on": "all"}


@pytest.fixture
def first_attempts() -> str:
    return "batch"


@pytest.fixture(autouse=True)
def open_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine that is busy, a batch is still open when the next delivery comes."""
    monkeypatch.setattr(batches, "_OPEN_SECONDS", 3.0)


async def deliver(stack: Stack, endpoint: str, count: int = 1) -> list[str]:
    ids = [await stack.deliver(endpoint) for _ in range(count)]
    await stack.ring()
    return ids


async def delivered(stack: Stack, ids: list[str]) -> None:
    for one in ids:
        await stack.until_status(one, "delivered")


async def batches_of(stack: Stack, ids: list[str]) -> set[str]:
    return {(await stack.row(one)).batch_id for one in ids}


async def result_of(stack: Stack, batch_id: str) -> BatchResult:
    name = batch_messages.workflow_id(batch_id)
    handle = stack.client.get_workflow_handle(name, result_type=BatchResult)
    return await handle.result()


async def test_what_comes_meanwhile_travels_in_the_same_workflow(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids: list[str] = []
    for count in (1, 5, 3):
        ids += await deliver(stack, endpoint, count)
        await delivered(stack, ids)
    [name] = await batches_of(stack, ids)
    report = await result_of(stack, name)
    assert list(report.delivered) == ids
    assert report.summary == "9 first attempts: 9 delivered"
    assert Counter(request.message_id for request in stack.receiver.requests) == Counter(ids)


async def test_a_batch_is_found_by_a_delivery_that_joined_it(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    [first] = await deliver(stack, endpoint)
    await delivered(stack, [first])
    [second] = await deliver(stack, endpoint)
    await delivered(stack, [second])
    [name] = await batches_of(stack, [first, second])
    for one in (first, second):
        query = f'HookDeliveries="{batch_messages.short_name(one)}"'

        async def found(query: str = query) -> list[str]:
            return [one.id async for one in stack.client.list_workflows(query)]

        assert await eventually(found) == [batch_messages.workflow_id(name)]


async def test_one_that_joins_and_fails_goes_on_in_a_workflow_of_its_own(stack: Stack) -> None:
    fine, failing = await stack.endpoint("/ok"), await stack.endpoint("/status/500", plan=PATIENT)
    first = await deliver(stack, fine)
    await delivered(stack, first)
    [second] = await deliver(stack, failing)
    await stack.until_status(second, "retrying")
    await stack.until_told(second)
    assert (await stack.state(second)).attempts == 1
    [name] = await batches_of(stack, [*first, second])
    assert (await result_of(stack, name)).continued == {second: "500"}


async def test_a_slow_receiver_that_joins_holds_no_batch_up(stack: Stack) -> None:
    slow, fine = await stack.endpoint("/slow/4"), await stack.endpoint("/ok")
    first = await deliver(stack, fine)
    await delivered(stack, first)
    [late] = await deliver(stack, slow)
    await stack.receiver.wait_for(2)
    [name] = await batches_of(stack, [*first, late])
    assert (await result_of(stack, name)).continued == {late: "no answer yet"}
    assert (await stack.row(late)).status == "pending"
    await delivered(stack, [late])
    assert [one.message_id for one in stack.receiver.requests] == [*first, late]


async def test_the_next_batch_is_there_before_one_is_full(stack: Stack) -> None:
    """So what comes then does not wait for a workflow to start."""
    endpoint = await stack.endpoint("/ok")
    ids: list[str] = []
    for count in (1, batch_messages.MOST // 2, batch_messages.MOST // 2 - 1, 1):
        ids = await deliver(stack, endpoint, count)
        await delivered(stack, ids)
    [name] = await batches_of(stack, ids)
    history = await stack.client.get_workflow_handle(
        batch_messages.workflow_id(name)
    ).fetch_history()
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads
    [order] = await stack.client.data_converter.decode(given, [batch_messages.BatchInput])
    assert order.delivery_ids == ()
    report = await result_of(stack, name)
    assert ids[0] in report.delivered  # on a slow machine it may have begun even earlier


async def test_no_batch_takes_more_than_a_hundred(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids = await deliver(stack, endpoint)
    await delivered(stack, ids)
    ids += await deliver(stack, endpoint, 150)
    await delivered(stack, ids)
    sizes = Counter([(await stack.row(one)).batch_id for one in ids])
    assert max(sizes.values()) <= batch_messages.MOST
    for name, size in sizes.items():
        report = await result_of(stack, name)
        assert len(report.delivered) == size


@pytest.mark.parametrize("lost", ["never told", "over by then"])
async def test_what_a_batch_was_never_told_of_is_taken_again(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A crash between the commit and the batch: the rows are its own until their time runs out."""
    monkeypatch.setattr(relay, "BATCH_LEASE", timedelta(seconds=9))
    endpoint = await stack.endpoint("/ok")
    first = await deliver(stack, endpoint)
    await delivered(stack, first)
    add, answers = Batch.add, iter([lost == "never told"])

    def losing(self: Batch, rows: Any) -> bool:
        for answer in answers:
            return answer
        return add(self, rows)

    with patch.object(Batch, "add", losing):
        second = await deliver(stack, endpoint)
        await delivered(stack, second)
    [before, after] = [(await stack.row(one)).batch_id for one in (*first, *second)]
    assert before != after
    assert [one.message_id for one in stack.receiver.requests] == [*first, *second]
