"""Figures agree with the rows after each step of a random walk: whatever happens to deliveries, in
any order, also while entries are added up and rows are deleted."""

from __future__ import annotations

import random

import pytest

from hookfast import ids
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.database.engine import Database
from tests.integration.storage.counting.walker import STEPS, walking

pytestmark = pytest.mark.anyio

UNCHANGING = {
    "attempts begin",
    "attempts are recorded again",
    "entries are added up",
    "lanes get heads",  # none is without one, as nobody else has a row locked
    "time passes",
    "a transaction is rolled back",
}


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(1, 200), *(pytest.param(seed, 400, marks=pytest.mark.slow) for seed in range(2, 5))],
)
async def test_figures_agree_with_the_rows_after_every_step(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    dice = random.Random(seed)  # the ids decide which rows are chosen
    monkeypatch.setattr(ids, "_system_bits", lambda: dice.getrandbits(62))
    async with walking(database, seed) as walker:
        changing = set()
        for _ in range(steps):
            name = await walker.step()
            if await walker.expected.compare():
                changing.add(name)
    assert walker.expected.statuses == {status.value for status in DeliveryStatus}
    assert changing >= STEPS.keys() - UNCHANGING
