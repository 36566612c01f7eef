"""The doorbell that wakes relays, on both databases."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_waiter_cancelled_during_a_ring_is_cancelled(database: Database) -> None:
    """Otherwise a relay that should stop would run on, and its worker would never end."""
    doorbell = doorbell_for(database)
    await doorbell.listen()
    try:
        if database.kind == "postgresql":
            await doorbell.wait(PATIENCE)  # it rings once when it starts to listen
        waiting = asyncio.create_task(doorbell.wait(60))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        doorbell.wake()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        await doorbell.close()
