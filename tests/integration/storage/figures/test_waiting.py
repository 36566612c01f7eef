"""What waits now: the numbers of deliveries that have not ended, and of dead letters."""

from __future__ import annotations

import pytest

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import waiting
from hookfast.storage.figures.waiting import Waiting
from tests.integration.storage.figures.test_overview import deliver
from tests.support.figures import count_rows

pytestmark = pytest.mark.anyio


async def test_waiting_deliveries_and_dead_letters_are_counted_by_status(
    database: Database,
) -> None:
    for status, reason, number in (
        ("held", "circuit_open", 2),
        ("pending", None, 1),
        ("dead", "retries_exhausted", 2),
        ("dead", "expired", 1),
        ("gone", "gone", 1),
        ("delivered", None, 1),
    ):
        for _ in range(number):
            await deliver(database, "ep_1", status=status, reason=reason)
    await deliver(database, "ep_1", status="pending", place="queued", finished_at=None)
    await deliver(database, "ep_2", status="dead", reason="expired", tenant_id="tnt_2")
    await count_rows(database)
    async with database.read() as connection:
        every = await waiting.read(connection, Scope())
        own = await waiting.read(connection, Scope("tnt_1"))
        of_nobody = await waiting.read(connection, Scope("tnt_nobody"))
    assert own.by_status == {
        DeliveryStatus.HELD: 2,
        DeliveryStatus.PENDING: 2,
        DeliveryStatus.DEAD: 3,
        DeliveryStatus.GONE: 1,
    }
    assert (own.queued, own.backlog, own.dead) == (1, 4, 4)
    assert every.by_status == own.by_status | {DeliveryStatus.DEAD: 4}
    assert of_nobody == Waiting()
