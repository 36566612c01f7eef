"""Pausing, cancelling and resending deliveries that a circuit holds."""

from __future__ import annotations

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.endpoints.circuit import closed
from hookfast.storage.circuits import circuits
from tests.integration.delivery.circuits import ON_REQUEST, circuit, count_held, times_sent
from tests.integration.delivery.plans import PATIENT, SOON
from tests.integration.delivery.steps import Steps

pytestmark = pytest.mark.anyio

PAUSE, RESUME, RESEND, CANCEL = Action.PAUSE, Action.RESUME, Action.RESEND, Action.CANCEL


async def broken(steps: Steps, **options: object) -> tuple[str, list[str]]:
    """Create an endpoint whose circuit is open; return it and the three deliveries that failed."""
    steps.receiver.routes["/hook"] = "/status/500"
    endpoint = await steps.endpoint("/hook", circuit=ON_REQUEST, **{"plan": PATIENT} | options)
    failed = [await steps.deliver(endpoint) for _ in range(3)]
    for delivery in failed:
        await steps.step(delivery)
    assert (await circuit(steps, endpoint)).state == "open"
    return endpoint, failed


async def held(steps: Steps, endpoint: str) -> str:
    delivery = await steps.deliver(endpoint)
    assert (await steps.step(delivery)).status == "held"
    return delivery


async def test_a_held_delivery_can_be_paused_and_is_held_again_when_it_is_resumed(
    steps: Steps,
) -> None:
    endpoint, _ = await broken(steps)
    delivery, other = await held(steps, endpoint), await held(steps, endpoint)
    for _ in range(2):
        assert (await steps.step(delivery, PAUSE)).status == "paused"
        assert await count_held(steps, endpoint) == 1
        assert (await steps.step(delivery, RESUME)).status == "held"
    assert times_sent(steps, [delivery, other]) == [0, 0]


async def test_a_delivery_resumed_after_its_circuit_closed_is_sent(steps: Steps) -> None:
    endpoint, [failed, *_] = await broken(steps)
    paused = await held(steps, endpoint)
    await steps.step(paused, PAUSE)
    steps.receiver.routes["/hook"] = "/ok"
    assert (await steps.step(failed, RESEND)).status == "delivered"
    assert (await circuit(steps, endpoint)).state == "draining"
    async with steps.database.write() as connection:
        await circuits.change(
            connection, endpoint, lambda owned: closed(owned.circuit, held=0), now=utc_now()
        )
    assert times_sent(steps, [paused]) == [0]
    assert (await steps.step(paused, RESUME)).status == "delivered"
    assert times_sent(steps, [paused]) == [1]


async def test_a_held_delivery_can_be_cancelled(steps: Steps) -> None:
    endpoint, _ = await broken(steps)
    cancelled = await held(steps, endpoint)
    assert (await steps.step(cancelled, CANCEL)).status == "cancelled"
    assert (await steps.step(cancelled, Action.RELEASE)).status == "cancelled"
    assert await count_held(steps, endpoint) == 0
    assert times_sent(steps, [cancelled]) == [0]


@pytest.mark.parametrize("attempted", [False, True], ids=["before its first attempt", "later"])
async def test_a_failed_resend_of_a_held_delivery_leaves_it_held(
    steps: Steps, attempted: bool
) -> None:
    endpoint, [failed, *_] = await broken(steps, plan=SOON)
    delivery = failed if attempted else await held(steps, endpoint)
    if attempted:  # at its first retry
        retry_at = (await steps.row(delivery)).next_attempt_at
        assert (await steps.step(delivery, at=retry_at)).status == "held"
    before = await steps.row(delivery)

    result = await steps.step(delivery, RESEND)

    assert (result.status, result.reason, result.retries) == ("held", "circuit_open", 0)
    after = await steps.row(delivery)
    assert after.attempts == before.attempts + 1
    assert after.next_attempt_at == before.next_attempt_at
    assert (await circuit(steps, endpoint)).state == "open"
