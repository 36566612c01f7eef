"""Ordered delivery, with a whole worker: a receiver that fails at random gets the events of each
ordering key one after the other, in the order in which they were emitted."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.deliveries.facts import Action
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.conftest import Stack, running_stack
from tests.integration.delivery.plans import QUICK
from tests.integration.storage.deliveries import ordered
from tests.integration.storage.retention.ended import NO_RETRIES
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.anyio

NEVER_OPENS = {"failure_threshold": 1_000}


@pytest.fixture(params=["workflow", "batch"])
def first_attempts(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def endpoint(stack: Stack) -> str:
    """An endpoint with ordered deliveries, at `/hook`."""
    endpoint = await ordered.seed_ordered(stack.database, plan=QUICK, circuit=NEVER_OPENS)
    await ordered.set_endpoint(stack.database, endpoint, url=stack.receiver.url("/hook"))
    return endpoint


async def emit(stack: Stack, *keys: str | None) -> list[str]:
    deliveries = await ordered.emit(stack.database, *keys)
    stack.doorbell.ring()
    return deliveries


def first_requests(stack: Stack) -> list[str]:
    """Return the message ids in the order of their first requests."""
    return list(dict.fromkeys(request.message_id for request in stack.receiver.requests))


async def test_receiver_that_fails_at_random_gets_each_key_in_order(
    stack: Stack, endpoint: str
) -> None:
    stack.receiver.routes["/hook"] = "/flapping/12"
    dice = random.Random(16)
    async with ordered.api(stack.database) as emitter:
        for _ in range(6):
            await ordered.emit_with(emitter, [dice.choice("abcde") for _ in range(5)])
            stack.doorbell.ring()
    emitted = [row.id for row in await ordered.rows(stack.database)]
    await stack.until_all(emitted, "delivered", "dead", timeout=2 * PATIENCE)
    rows = await ordered.rows(stack.database)
    requests = [request.message_id for request in stack.receiver.requests]
    assert len(requests) > len(emitted)
    for _, lane in groupby(rows, key=lambda row: row.lane):
        line = [row.id for row in lane]
        in_lane = set(line)
        # all requests of one, then all of the next
        sent = [one for one, _ in groupby(one for one in requests if one in in_lane)]
        assert sent == line
    assert [(row.head, row.needs_head) for row in await ordered.lane_rows(stack.database)] == [
        (None, False)
    ] * len({row.lane for row in rows})


async def test_wishes_of_people_keep_the_order(stack: Stack, endpoint: str) -> None:
    """A paused endpoint holds the head; queued deliveries can be resent, paused and cancelled."""
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    one, two, three, four, five = await emit(stack, *"aaaaa")
    await stack.until_status(one, "held")
    await stack.request(two, "resend")
    await stack.request(three, "cancel")
    await stack.request(four, "pause")
    await stack.until_status(three, "cancelled")
    assert not stack.receiver.requests
    await stack.change_endpoint(endpoint_state.resume, endpoint)
    await stack.until_all([one, two], "delivered")
    row = await stack.until(four, lambda row: row.place == "head")
    assert row.status == "paused"
    await stack.request(one, "resend")  # in line, before the one that never had its turn
    await stack.request(four, "resume")
    await stack.until_all([one, four, five], "delivered")
    assert first_requests(stack) == [one, two, four, five]
    again = [request.message_id for request in stack.receiver.requests]
    assert again == [one, two, four, one, five]


async def test_redriven_dead_letters_keep_the_order(stack: Stack, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    await ordered.set_endpoint(stack.database, endpoint, retry_plan=NO_RETRIES)
    line = await emit(stack, *"aab")
    await stack.until_all(line, "dead")
    stack.receiver.requests.clear()
    stack.receiver.routes["/hook"] = "/ok"
    new = await emit(stack, "a")
    await stack.request_many(line, Action.RESEND_YIELDING)
    await stack.until_all([*line, *new], "delivered")

    async def idle() -> Any:
        return all(row.head is None for row in await ordered.lane_rows(stack.database))

    await eventually(idle)
    a = [one for one in first_requests(stack) if one in line[:2]]
    assert a == line[:2]


@pytest.mark.parametrize("first_attempts", ["workflow"])
async def test_dead_letter_blocks_its_lane_where_the_setting_says_so(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    waiting = settings.model_copy(update={"ordered_dead_letters": DeadLetterPolicy.WAIT})
    async with running_stack(temporal, waiting, database, receiver) as stack:
        endpoint = await ordered.seed_ordered(database, plan=NO_RETRIES, circuit=NEVER_OPENS)
        await ordered.set_endpoint(database, endpoint, url=receiver.url("/hook"))
        receiver.routes["/hook"] = "/status/500"
        one, two, three = await emit(stack, *"aaa")
        assert (await stack.until_status(one, "dead")).place == "head"
        receiver.routes["/hook"] = "/fail-first/1"
        await stack.request(one, "resend")  # is the head again at once, and dies again
        await stack.until_attempts(one, 2)
        await stack.request(one, "cancel")
        await stack.until_status(two, "dead")
        await stack.request(two, "resend")
        await stack.until_status(three, "dead")
        assert (await stack.row(one)).status == "cancelled"
        assert (await stack.row(two)).status == "delivered"
        assert first_requests(stack) == [one, two, three]
