"""Admission of attempts, decided under locks for the delivery's current state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hookfast.deliveries.actions import UserAction
from hookfast.deliveries.facts import AttemptPlan
from hookfast.deliveries.life import Phase
from hookfast.endpoints.circuit import Cause
from hookfast.endpoints.limits import Granted, Limits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, admission
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.endpoints import endpoint_state
from tests.integration.storage.circuits.stored_circuits import (
    admitted,
    circuit_of,
    decide,
    deliver,
    draining,
    held_count,
    open_circuit,
    planned,
    release,
    seed_due,
)
from tests.integration.storage.deliveries.stored_lives import FIRST, NOON, at, stored_life
from tests.support.seed import delivery_row, seed_endpoint

pytestmark = pytest.mark.anyio

ONE_A_MINUTE = Limits(rate_per_second=1 / 60)


async def do(database: Database, delivery: str, action: UserAction) -> None:
    async with database.write() as connection:
        await actions.request(connection, delivery, action, now=at(599))


async def turn(
    database: Database, endpoint: str, delivery: str, attempt: AttemptPlan | None = None
) -> Granted | LifeChange:
    """Take a turn for an attempt whose endpoint has limits."""
    attempt = attempt or await planned(database, endpoint, delivery)
    async with database.write() as connection:
        return await admission.take_turn(
            connection,
            delivery,
            endpoint,
            attempt,
            limits=ONE_A_MINUTE,
            waited=False,
            lease=timedelta(minutes=1),
            clock=lambda: at(600),
        )


# -- the gate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["disabled", "deleted"])
async def test_an_attempt_at_a_disabled_or_deleted_endpoint_makes_a_dead_letter(
    database: Database, state: str
) -> None:
    columns = {"state": state} if state == "disabled" else {"deleted_at": at(0)}
    endpoint = await seed_endpoint(database, "https://example.com/hook", **columns)
    delivery = await seed_due(database, endpoint)
    change = await decide(database, endpoint, delivery)
    assert change is not None
    assert change.died
    row = await delivery_row(database, delivery)
    assert (row.status, row.reason) == ("dead", f"endpoint_{state}")
    assert (row.attempts, row.next_attempt_at, row.finished_at) == (0, None, at(600))
    assert row.last_error == f"Nothing was sent: the endpoint is {state}."


@pytest.mark.parametrize("gate", ["open", "disabled"])
@pytest.mark.parametrize("action", ["cancel", "pause", "deliver", "resend"])
async def test_a_late_decision_on_a_delivery_that_moved_on_changes_nothing(
    database: Database, endpoint: str, action: UserAction, gate: str
) -> None:
    """A worker was frozen between reading the gate and changing the delivery."""
    await open_circuit(database, endpoint)
    delivery = await seed_due(database, endpoint)
    attempt = await planned(database, endpoint, delivery)
    if action == "deliver":
        await deliver(database, delivery)
    else:
        await do(database, delivery, action)
    if gate == "disabled":
        async with database.write() as connection:
            assert await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="By request.", now=at(599)
            )
    before = await delivery_row(database, delivery)
    change = await decide(database, endpoint, delivery, attempt)
    assert change is not None
    assert change.after == change.before
    assert await delivery_row(database, delivery) == before
    assert await held_count(database, endpoint) == 0


async def test_holding_a_held_delivery_again_does_not_prolong_the_hold(
    database: Database, endpoint: str
) -> None:
    """Two workers got the same step; the circuit closed and released the delivery in between."""
    await open_circuit(database, endpoint)
    delivery = await seed_due(database, endpoint)
    attempt = await planned(database, endpoint, delivery)
    assert not await admitted(database, endpoint, delivery)
    before = await delivery_row(database, delivery)
    await decide(database, endpoint, delivery, attempt)
    assert await delivery_row(database, delivery) == before


# -- the limits -----------------------------------------------------------------------------------


async def test_an_attempt_that_waits_for_its_turn_does_not_count(
    database: Database, endpoint: str
) -> None:
    first, second = [await seed_due(database, endpoint) for _ in range(2)]
    assert isinstance(await turn(database, endpoint, first), Granted)
    change = await turn(database, endpoint, second)
    assert isinstance(change, LifeChange)
    assert (change.after.phase, change.after.waited) == (Phase.LIMITED, True)
    row = await delivery_row(database, second)
    assert (row.status, row.reason, row.attempts) == ("pending", "endpoint_limit", 0)
    assert row.next_attempt_at == row.due_at > at(600)
    assert row.waiting_since == at(600)


@pytest.mark.parametrize("released", [False, True])
async def test_a_released_delivery_that_waits_for_its_turn_is_counted_as_drained_once(
    database: Database, endpoint: str, released: bool
) -> None:
    other, delivery = [await seed_due(database, endpoint) for _ in range(2)]
    await draining(database, endpoint)
    if released:
        assert not await admitted(database, endpoint, delivery)
        await release(database, delivery)
    assert isinstance(await turn(database, endpoint, other), Granted)
    for _ in range(2):
        change = await turn(database, endpoint, delivery, attempt=FIRST)
        assert isinstance(change, LifeChange)
        assert change.after.phase is Phase.LIMITED
    assert (await circuit_of(database, endpoint)).drained == int(released)
    assert await held_count(database, endpoint) == 0


@pytest.mark.parametrize("action", ["cancel", "pause", "resend", "deliver"])
async def test_a_late_turn_of_a_delivery_that_moved_on_changes_nothing(
    database: Database, endpoint: str, action: UserAction
) -> None:
    other, delivery = [await seed_due(database, endpoint) for _ in range(2)]
    attempt = await planned(database, endpoint, delivery)
    assert isinstance(await turn(database, endpoint, other), Granted)
    if action == "deliver":
        await deliver(database, delivery)
    else:
        await do(database, delivery, action)
    before = await delivery_row(database, delivery)
    change = await turn(database, endpoint, delivery, attempt)
    assert isinstance(change, LifeChange)
    assert change.after == change.before
    assert await delivery_row(database, delivery) == before


async def test_a_resend_that_waits_for_its_turn_leaves_the_plan_unchanged(
    database: Database, endpoint: str
) -> None:
    other, delivery = [await seed_due(database, endpoint) for _ in range(2)]
    await do(database, delivery, "pause")
    await do(database, delivery, "resend")
    assert isinstance(await turn(database, endpoint, other), Granted)
    before = await stored_life(database, delivery)
    assert isinstance(await turn(database, endpoint, delivery), LifeChange)
    after = await stored_life(database, delivery)
    assert after.resend is not None
    assert before.resend is not None
    assert after.resend.not_before == after.next_attempt_at
    assert replace(after, resend=before.resend, due_at=before.due_at) == before
    assert (after.phase, before.due_at) == (Phase.PAUSED, NOON)
