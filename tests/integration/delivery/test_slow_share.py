"""A receiver that never answers leaves places for the batches of others."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.delivery.conftest import Stack

pytestmark = pytest.mark.anyio


@pytest.fixture
def first_attempts() -> str:
    return "batch"


async def test_a_receiver_that_never_answers_leaves_others_in_batches(stack: Stack) -> None:
    """It may have a third of the 48 places for slow requests. All that were claimed before any was
    slow take places, three times as many as there are, and then every endpoint counts as slow: the
    others get workflows of their own."""
    await stack.deliver_together(await stack.endpoint("/slow/4.5"), 150)
    await stack.receiver.wait_for(140)
    await asyncio.sleep(0.8)
    fine = await stack.deliver_together(await stack.endpoint("/ok"), 40)
    await stack.until_all(fine, "delivered")
    assert all([(await stack.row(one)).batch_id is not None for one in fine])
