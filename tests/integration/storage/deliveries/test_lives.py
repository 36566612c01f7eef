"""Stored lives: read back as they were written, and changed by one transaction at a time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from hookfast.clock import rfc3339
from hookfast.deliveries.facts import Action, AttemptPlan, Fact, Held, Limited, Undeliverable
from hookfast.deliveries.life import Life, Phase, apply_fact, next_step
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import Reason
from hookfast.events.operational import Kind
from hookfast.logs.kind import Kind as LineKind
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows, lives
from tests.integration.storage.circuits.stored_circuits import notified
from tests.integration.storage.deliveries.stored_lives import (
    BEFORE,
    FIRST,
    NOON,
    at,
    life_after,
    seed_life,
    stored_life,
)
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, ended
from tests.support.seed import delivery_row
from tests.support.undoing import undoing
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def apply(
    database: Database, delivery: str, fact: Fact, *, now: float, wake: int | None = None
) -> life_rows.LifeChange:
    async with database.write() as connection:
        changes = await lives.apply(connection, [(delivery, fact)], now=at(now), wake=wake)
    return changes[delivery]


# -- reading and writing --------------------------------------------------------------------------


async def test_a_life_is_read_as_it_was_written(database: Database, endpoint: str) -> None:
    for before, facts in BEFORE.items():
        delivery = await seed_life(database, endpoint, before)
        expected = life_after(facts)
        assert await stored_life(database, delivery) == expected
        row = await delivery_row(database, delivery)
        assert (row.status, row.next_attempt_at) == (expected.status, expected.next_attempt_at)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
async def test_a_life_is_the_same_in_the_database_and_in_memory(
    database: Database, endpoint: str, seed: int
) -> None:
    """After each of many random facts."""
    dice = random.Random(seed)
    delivery = await seed_life(database, endpoint)
    life, now = Life(due_at=NOON), 0.0
    met = set()
    for _ in range(60):
        now += dice.choice([0, 0.000_001, 0.1, 1, 61, 700.123_457])
        fact = _any_fact(dice, life, now)
        expected = apply_fact(life, fact, now=at(now))
        change = await apply(database, delivery, fact, now=now)
        assert (change.before, change.after) == (life, expected)
        life = await stored_life(database, delivery)
        assert life == expected, fact
        row = await delivery_row(database, delivery)
        assert (row.status, row.next_attempt_at) == (life.status, life.next_attempt_at)
        met.add(life.phase)
    assert len(met) >= 4, met


def _any_fact(dice: random.Random, life: Life, now: float) -> Fact:
    step = next_step(life, at(now), probe=dice.random() < 0.3)
    if isinstance(step, AttemptPlan) and dice.random() < 0.8:
        later = at(now) + timedelta(seconds=dice.choice([0.5, 90]))
        status = dice.choice([200, 503, 503, 503, 410])
        plan = dice.choice([MINUTES, MINUTES, NO_RETRIES])
        return dice.choice(
            [
                Held(step, Reason.CIRCUIT_OPEN, later),
                Limited(step, later),
                Undeliverable(step, Reason.ENDPOINT_DISABLED, "Nothing was sent."),
                ended(step, status, at(now), plan=plan),
                ended(step, status, at(now), plan=plan),
            ]
        )
    return dice.choice(list(Action))


async def test_many_deliveries_are_changed_at_once_and_others_stay_unchanged(
    database: Database, endpoint: str
) -> None:
    ids = {before: await seed_life(database, endpoint, before) for before in BEFORE}
    rows = {before: await delivery_row(database, one) for before, one in ids.items()}
    facts = [(one, Action.PAUSE) for one in reversed(ids.values())]
    async with database.write() as connection:
        changes = await lives.apply(
            connection, [*facts, ("dlv_unknown", Action.PAUSE)], now=at(10), wake=Urgency.JOB
        )
    assert changes.keys() == set(ids.values())
    for before, delivery in ids.items():
        row, change = await delivery_row(database, delivery), changes[delivery]
        assert change.before == life_after(BEFORE[before])
        assert (change.delivery_id, change.endpoint_id) == (delivery, endpoint)
        assert change.locked.tenant_id == row.tenant_id
        if before in ("pending", "retrying", "limited", "held"):
            assert (row.status, row.updated_at, row.started_at) == ("paused", at(10), None)
            assert (row.wake_count, row.urgency) == (1, Urgency.JOB)
            assert change.left_hold == (before == "held")
        else:
            assert row == rows[before]
            assert change.after == change.before


async def test_several_facts_of_one_delivery_are_one_change(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    facts = [(delivery, one) for one in (Action.PAUSE, Action.RESUME, Action.PAUSE)]
    async with database.write() as connection:
        changes = await lives.apply(connection, facts, now=at(10), wake=Urgency.PERSON)
    assert changes[delivery].after.phase is Phase.PAUSED
    assert (await delivery_row(database, delivery)).wake_count == 1


async def test_a_rolled_back_change_leaves_the_row_unchanged(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    before = await delivery_row(database, delivery)
    async with undoing(database) as connection:
        await lives.apply(connection, [(delivery, Action.CANCEL)], now=at(10), wake=Urgency.PERSON)
    assert await delivery_row(database, delivery) == before


# -- two at once ----------------------------------------------------------------------------------

# A first fact, and a stale fact that another worker computed before the first was committed.
FIRSTS: dict[str, Fact] = {
    "cancelled": Action.CANCEL,
    "paused": Action.PAUSE,
    "resent": Action.RESEND,
    "delivered": ended(FIRST, 200, at(5)),
    "failed": ended(FIRST, 503, at(5)),
    "held": Held(FIRST, Reason.CIRCUIT_OPEN, at(3600)),
    "limited": Limited(FIRST, at(90)),
}
PUT_OFF: dict[str, Fact] = {
    "held": Held(FIRST, Reason.ENDPOINT_PAUSED, at(7200)),
    "limited": Limited(FIRST, at(60)),
    "undeliverable": Undeliverable(FIRST, Reason.ENDPOINT_DISABLED, "Nothing was sent."),
}
STALE: dict[str, Fact] = PUT_OFF | {
    "arrived": ended(FIRST, 200, at(6)),
    "failed": ended(FIRST, 503, at(6)),
    "gone": ended(FIRST, 410, at(6)),
}


@pytest.mark.parametrize("first", FIRSTS)
async def test_a_stale_fact_is_applied_to_the_current_life(
    workers: list[Database], endpoint: str, first: str
) -> None:
    """Both workers have read the delivery. The second waits for the row while the transaction of
    the first is open, and does not overwrite its change."""
    here, there, _ = workers
    moved = life_after([(7, FIRSTS[first])])
    for stale, fact in STALE.items():
        delivery = await seed_life(here, endpoint)
        assert next_step(await stored_life(there, delivery), at(5)) == FIRST

        async with asyncio.timeout(PATIENCE):
            async with here.write() as connection:
                await lives.apply(connection, [(delivery, FIRSTS[first])], now=at(7))
                second = asyncio.create_task(apply(there, delivery, fact, now=8))
                await _until_it_waits(here, second)
            change = await second

        assert change.before == moved
        assert change.after == apply_fact(moved, fact, now=at(8)), stale
        assert await stored_life(here, delivery) == change.after
        if stale in PUT_OFF:  # it is about an attempt that is no longer the next one
            assert change.after == change.before, stale
        if first in ("cancelled", "delivered"):
            assert change.after.phase is Phase(first), stale


async def test_simultaneous_changes_of_the_same_deliveries_do_not_deadlock(
    workers: list[Database], endpoint: str
) -> None:
    ids = [await seed_life(workers[0], endpoint) for _ in range(12)]

    async def change(number: int) -> None:
        actions = (Action.PAUSE, Action.RESUME)
        shuffled = random.Random(number).sample(ids, len(ids))
        async with workers[number % 2].write() as connection:
            for action in actions:
                await lives.apply(
                    connection, [(one, action) for one in shuffled], now=at(number), wake=1
                )

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(change(number) for number in range(12)))
    assert {(await delivery_row(workers[0], one)).wake_count for one in ids} == {24}


async def _until_it_waits(database: Database, task: asyncio.Task[Any]) -> None:
    """Wait until the other worker's transaction waits for ours."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while True:
        await asyncio.sleep(0.02)
        assert not task.done()
        if database.kind == "sqlite":  # its waiting writers are not visible
            return
        async with database.read() as connection:
            if (await connection.execute(waiting)).scalar_one():
                return


# -- the outbox and notifications -----------------------------------------------------------------


async def test_a_fact_of_its_workflow_marks_a_delivery_as_started(
    database: Database, endpoint: str
) -> None:
    """The relay may have died before it marked the row. But a delivery that was put back into the
    outbox stays there, because its workflow has not been woken yet."""
    for wakes in (0, 1):
        delivery = await seed_life(database, endpoint)
        await _put_back(database, delivery, wake_count=wakes)
        await apply(database, delivery, ended(FIRST, 503, at(1)), now=2)
        row = await delivery_row(database, delivery)
        assert (row.status, row.started_at) == ("retrying", None if wakes else at(2))


async def test_operators_are_notified_once_of_a_dead_letter(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    undeliverable = Undeliverable(FIRST, Reason.ENDPOINT_DISABLED, "Nothing was sent.")
    assert (await apply(database, delivery, undeliverable, now=1)).died
    assert not (await apply(database, delivery, undeliverable, now=2)).died
    assert (await notified(database))[1] == [Kind.DELIVERY_DEAD]
    await apply(database, delivery, Action.RESEND, now=3, wake=Urgency.PERSON)
    await apply(database, delivery, Action.CANCEL, now=4, wake=Urgency.PERSON)
    assert (await notified(database))[1] == [Kind.DELIVERY_DEAD]


async def _put_back(database: Database, delivery: str, *, wake_count: int) -> None:
    async with database.write() as connection:
        await connection.execute(
            text("UPDATE deliveries SET started_at = NULL, wake_count = :count WHERE id = :id"),
            {"id": delivery, "count": wake_count},
        )


# -- log lines ------------------------------------------------------------------------------------


async def test_a_hold_has_one_line_however_often_it_is_renewed(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    with capture_logs() as lines:
        for hour, reason in [
            (0, Reason.CIRCUIT_OPEN),
            (6, Reason.CIRCUIT_OPEN),
            (12, Reason.CIRCUIT_DRAINING),
        ]:
            now = hour * 3600.0
            attempt = next_step(await stored_life(database, delivery), at(now))
            assert isinstance(attempt, AttemptPlan)
            await apply(database, delivery, Held(attempt, reason, at(now + 21_600)), now=now)
        await apply(database, delivery, Action.RELEASE, now=50_000)
    assert [(line["kind"], line["reason"], line["until"]) for line in lines] == [
        (LineKind.DELIVERY_HELD, "circuit_open", rfc3339(at(21_600))),
        (LineKind.DELIVERY_HELD, "circuit_draining", rfc3339(at(64_800))),
        (LineKind.DELIVERY_RELEASED, "circuit_draining", rfc3339(at(50_000))),
    ]
    assert {(line["delivery_id"], line["endpoint_id"]) for line in lines} == {(delivery, endpoint)}


async def test_what_is_rolled_back_has_no_line(database: Database, endpoint: str) -> None:
    delivery = await seed_life(database, endpoint)
    with capture_logs() as lines:
        with contextlib.suppress(ZeroDivisionError):
            async with database.write() as connection:
                await lives.apply(connection, [(delivery, Action.PAUSE)], now=at(0))
                raise ZeroDivisionError
        assert lines == []
        await apply(database, delivery, Action.PAUSE, now=0)
    assert [line["kind"] for line in lines] == [LineKind.DELIVERY_PAUSED]
