"""The bell that wakes relays, on each kind of database."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_whoever_is_cancelled_as_the_bell_rings_stops(database: Database) -> None:
    """Else a relay that should stop runs on, and its worker never ends."""
    doorbell = doorbell_for(database)
    await doorbell.listen()
    try:
        if database.kind == "postgresql":
            await doorbell.wait(PATIENCE)  # it rings once as it begins to listen
        waiting = asyncio.create_task(doorbell.wait(60))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        doorbell.wake()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        await doorbell.close()
