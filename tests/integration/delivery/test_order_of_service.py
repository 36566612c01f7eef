"""Overloaded workers make retries before new deliveries."""

from __future__ import annotations

import pytest

from tests.integration.delivery.circuits import circuit
from tests.integration.delivery.conftest import Stack

# alone: 600 attempts within a minute, of which the circuit counts ten seconds
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone]


async def test_burst_to_a_receiver_that_succeeds_at_the_second_retry_opens_no_circuit(
    stack: Stack,
) -> None:
    """It answers each message 500, 500, 200. If retries came after all 200 first attempts, five
    failures in a row would span the ten seconds that open a circuit."""
    plan = {"delays_seconds": [1] * 5, "jitter": 0, "retry_on": "all"}
    endpoint = await stack.endpoint("/fail-first/2", plan=plan)
    deliveries = await stack.deliver_together(endpoint, 200)
    stack.doorbell.ring()

    await stack.until_all(deliveries, "delivered")

    after = await circuit(stack, endpoint)
    assert (after.state, after.episode) == ("closed", 0)
    assert {(await stack.row(one)).attempts for one in deliveries} == {3}
    assert len(stack.receiver.requests) == 600
