"""Deliveries that join a batch which has already begun."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from hookfast.deliveries import batch_life, batch_messages
from hookfast.deliveries.batch_messages import BatchResult
from hookfast.dispatch import claim
from hookfast.dispatch.batches import Batch
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def first_attempts() -> str:
    return "batch"


@pytest.fixture(autouse=True)
def open_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep batches open for 3 s, so that on a busy machine the next delivery still joins one."""
    monkeypatch.setattr(batch_life, "OPEN_SECONDS", 3.0)


async def batches_of(stack: Stack, ids: list[str]) -> set[str]:
    return {(await stack.row(one)).batch_id for one in ids}


async def result_of(stack: Stack, batch_id: str) -> BatchResult:
    name = batch_messages.workflow_id(batch_id)
    handle = stack.client.get_workflow_handle(name, result_type=BatchResult)
    return await handle.result()


async def test_deliveries_that_join_a_batch_share_its_workflow(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids: list[str] = []
    for count in (1, 5, 3):
        ids += await stack.deliver_together(endpoint, count)
        await stack.until_all(ids, "delivered")
    [name] = await batches_of(stack, ids)
    result = await result_of(stack, name)
    assert list(result.delivered) == ids
    assert result.summary == "9 first attempts: 9 delivered"
    assert Counter(request.message_id for request in stack.receiver.requests) == Counter(ids)


async def test_temporal_finds_a_batch_by_the_id_of_a_delivery_that_joined_it(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    [first] = await stack.deliver_together(endpoint)
    await stack.until_all([first], "delivered")
    [second] = await stack.deliver_together(endpoint)
    await stack.until_all([second], "delivered")
    [name] = await batches_of(stack, [first, second])
    for one in (first, second):
        query = f'HookDeliveries="{batch_messages.short_name(one)}"'

        async def found(query: str = query) -> list[str]:
            return [one.id async for one in stack.client.list_workflows(query)]

        assert await eventually(found) == [batch_messages.workflow_id(name)]


async def test_failed_delivery_that_joined_a_batch_continues_in_its_own_workflow(
    stack: Stack,
) -> None:
    fine, failing = await stack.endpoint("/ok"), await stack.endpoint("/status/500", plan=PATIENT)
    first = await stack.deliver_together(fine)
    await stack.until_all(first, "delivered")
    [second] = await stack.deliver_together(failing)
    await stack.until_status(second, "retrying")
    await stack.until_relayed(second)
    assert (await stack.state(second)).attempts == 1
    [name] = await batches_of(stack, [*first, second])
    assert (await result_of(stack, name)).continued == {second: "500"}


async def test_a_slow_receiver_that_joins_does_not_hold_up_a_batch(stack: Stack) -> None:
    slow, fine = await stack.endpoint("/slow/4"), await stack.endpoint("/ok")
    first = await stack.deliver_together(fine)
    await stack.until_all(first, "delivered")
    [late] = await stack.deliver_together(slow)
    await stack.receiver.wait_for(2)
    [name] = await batches_of(stack, [*first, late])
    assert (await result_of(stack, name)).continued == {late: "no answer yet"}
    assert (await stack.row(late)).status == "pending"
    await stack.until_all([late], "delivered")
    assert [one.message_id for one in stack.receiver.requests] == [*first, late]


async def test_the_next_batch_is_started_before_one_is_full(stack: Stack) -> None:
    """Then the next deliveries do not wait for a workflow to start."""
    endpoint = await stack.endpoint("/ok")
    ids: list[str] = []
    for count in (1, batch_messages.MOST // 2, batch_messages.MOST // 2 - 1, 1):
        ids = await stack.deliver_together(endpoint, count)
        await stack.until_all(ids, "delivered")
    [name] = await batches_of(stack, ids)
    history = await stack.client.get_workflow_handle(
        batch_messages.workflow_id(name)
    ).fetch_history()
    payloads = history.events[0].workflow_execution_started_event_attributes.input.payloads
    [input] = await stack.client.data_converter.decode(payloads, [batch_messages.BatchInput])
    assert input.delivery_ids == ()
    result = await result_of(stack, name)
    assert ids[0] in result.delivered  # on a slow machine it may have begun even earlier


async def test_a_batch_has_at_most_100_deliveries(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids = await stack.deliver_together(endpoint)
    await stack.until_all(ids, "delivered")
    ids += await stack.deliver_together(endpoint, 150)
    await stack.until_all(ids, "delivered")
    sizes = Counter([(await stack.row(one)).batch_id for one in ids])
    assert max(sizes.values()) <= batch_messages.MOST
    for name, size in sizes.items():
        result = await result_of(stack, name)
        assert len(result.delivered) == size


@pytest.mark.parametrize("batch", ["crashed", "ended"])
async def test_deliveries_that_never_reached_their_batch_are_taken_by_another(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, batch: str
) -> None:
    """The worker crashes after the commit: the rows belong to the batch until `batch_until`."""
    endpoint = await stack.endpoint("/ok")
    first = await stack.deliver_together(endpoint)
    await stack.until_all(first, "delivered")
    add, results = Batch.add, iter([batch == "crashed"])
    lease = claim.BATCH_LEASE

    def losing(self: Batch, rows: Any, **lease_end: float) -> bool:
        monkeypatch.setattr(claim, "BATCH_LEASE", lease)
        for added in results:
            self.close()  # so that they cannot join this one again
            return added
        return add(self, rows, **lease_end)

    with patch.object(Batch, "add", losing):
        monkeypatch.setattr(claim, "BATCH_LEASE", timedelta(seconds=1))
        second = await stack.deliver_together(endpoint)
        await stack.until_all(second, "delivered")
    [before, after] = [(await stack.row(one)).batch_id for one in (*first, *second)]
    assert before != after
    assert [one.message_id for one in stack.receiver.requests] == [*first, *second]
