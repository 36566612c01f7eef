"""What people and jobs ask of deliveries: done in one transaction, and told afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest

from hookfast.deliveries.facts import Action
from hookfast.deliveries.life import Phase
from hookfast.deliveries.messages import ReceivedSignals, Urgency
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import Conflict, NotFound
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.lives import Change
from tests.integration.storage.deliveries.stored_lives import (
    BEFORE,
    ENDED,
    OPEN,
    at,
    life_after,
    seed_life,
    stored_life,
)
from tests.support.seed import delivery_row, seed_endpoint

pytestmark = pytest.mark.anyio

OVER: Final[dict[str, dict[str, Any]]] = {
    "disabled": {"state": "disabled"},
    "deleted": {"deleted_at": at(0)},
}
NOW: Final = 10.0

# What a delivery is at `NOW`, what is asked of it then, and what it is after that: its status, and
# when it goes next. None: it stays as it was. Where the resend of a delivery that has ended is
# pending and not retrying, no attempt of it was made.
WAITS = at(61.005)
ASKED: list[tuple[str, UserAction, tuple[str, Any] | None]] = [
    ("pending", "pause", ("paused", None)),
    ("pending", "resume", None),
    ("pending", "resend", ("pending", at(0))),  # its first attempt is due
    ("pending", "cancel", ("cancelled", None)),
    ("retrying", "pause", ("paused", None)),
    ("retrying", "resume", None),
    ("retrying", "resend", ("retrying", at(NOW))),
    ("retrying", "cancel", ("cancelled", None)),
    ("limited", "pause", ("paused", None)),
    ("limited", "resume", None),
    ("limited", "resend", ("pending", at(NOW))),
    ("limited", "cancel", ("cancelled", None)),
    ("held", "pause", ("paused", None)),
    ("held", "resume", None),
    ("held", "resend", ("held", at(NOW))),
    ("held", "cancel", ("cancelled", None)),
    ("paused", "pause", None),
    ("paused", "resume", ("retrying", WAITS)),
    ("paused", "resend", ("paused", at(NOW))),
    ("paused", "cancel", ("cancelled", None)),
    ("delivered", "resend", ("retrying", at(NOW))),
    ("dead", "resend", ("retrying", at(NOW))),
    ("gone", "resend", ("retrying", at(NOW))),
    ("cancelled", "resend", ("pending", at(NOW))),
]


async def ask(database: Database, delivery: str, action: UserAction, *, now: float = NOW) -> Change:
    async with database.write() as connection:
        return await actions.request(connection, delivery, action, now=at(now))


async def request_many(
    database: Database,
    deliveries: Sequence[str],
    action: Action,
    *,
    among: Sequence[DeliveryStatus] = (),
) -> list[Change]:
    async with database.write() as connection:
        return await actions.request_many(connection, deliveries, action, among=among, now=at(NOW))


async def seed_all(database: Database, endpoint: str) -> dict[str, str]:
    """A delivery in each status, by what it is."""
    return {before: await seed_life(database, endpoint, before) for before in BEFORE}


@pytest.fixture
async def endpoint(database: Database) -> str:
    return await seed_endpoint(database, "https://example.com/hook")


# -- a person's -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "action", "then"), ASKED)
async def test_what_a_person_asks_is_done_at_once(
    database: Database,
    endpoint: str,
    before: str,
    action: UserAction,
    then: tuple[str, Any] | None,
) -> None:
    delivery = await seed_life(database, endpoint, before)
    was = await delivery_row(database, delivery)
    change = await ask(database, delivery, action)
    assert change.before == life_after(BEFORE[before])
    assert change.after == await stored_life(database, delivery)
    row = await delivery_row(database, delivery)
    if then is None:
        assert row == was
        return
    assert (row.status, row.next_attempt_at) == then
    assert row.updated_at == at(NOW)
    # its workflow is yet to be told
    assert (row.started_at, row.leased_until, row.wakes) == (None, None, 1)
    assert row.urgency == Urgency.PERSON


@pytest.mark.parametrize("before", ENDED)
async def test_what_is_sent_again_begins_its_plan_again(
    database: Database, endpoint: str, before: str
) -> None:
    delivery = await seed_life(database, endpoint, before)
    await ask(database, delivery, "resend")
    row = await delivery_row(database, delivery)
    assert (row.finished_at, row.reason, row.round, row.retries) == (None, None, 1, 0)
    assert (row.resend_asked_at, row.resend_yields) == (at(NOW), False)
    assert row.attempts == (0 if before == "cancelled" else 1)


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
@pytest.mark.parametrize("before", ENDED)
async def test_what_has_ended_can_only_be_sent_again(
    database: Database, endpoint: str, before: str, action: UserAction
) -> None:
    delivery = await seed_life(database, endpoint, before)
    was = await delivery_row(database, delivery)
    with pytest.raises(Conflict) as caught:
        await ask(database, delivery, action)
    assert caught.value.code == "delivery_finished"
    assert before in caught.value.message
    assert await delivery_row(database, delivery) == was


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("before", BEFORE)
async def test_nothing_is_sent_again_to_an_endpoint_that_is_over(
    database: Database, before: str, over: str
) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", **OVER[over])
    delivery = await seed_life(database, endpoint, before)
    was = await delivery_row(database, delivery)
    with pytest.raises(Conflict) as caught:
        await ask(database, delivery, "resend")
    assert caught.value.code == "endpoint_disabled"
    assert over in caught.value.message
    assert await delivery_row(database, delivery) == was


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize(
    ("before", "action", "then"),
    [case for case in ASKED if case[1] != "resend"],
)
async def test_the_rest_may_be_asked_whatever_its_endpoint_is(
    database: Database, before: str, action: UserAction, then: tuple[str, Any] | None, over: str
) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", **OVER[over])
    delivery = await seed_life(database, endpoint, before)
    await ask(database, delivery, action)
    row = await delivery_row(database, delivery)
    expected = (before if before != "limited" else "pending") if then is None else then[0]
    assert row.status == expected


async def test_a_paused_endpoint_takes_a_resend(database: Database) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", state="paused")
    delivery = await seed_life(database, endpoint, "dead")
    assert (await ask(database, delivery, "resend")).after.phase is Phase.WAITING


@pytest.mark.parametrize("action", ["pause", "resume", "resend", "cancel"])
async def test_a_delivery_that_is_not_there_is_not_found(
    database: Database, action: UserAction
) -> None:
    with pytest.raises(NotFound):
        await ask(database, "dlv_unknown", action)


# -- a job's --------------------------------------------------------------------------------------

# A resend by a job waits where deliveries are held, and what is held goes without being asked.
MANY: list[tuple[Action, tuple[str, ...]]] = [
    (Action.PAUSE, ("pending", "retrying", "limited", "held")),
    (Action.RESUME, ("paused",)),
    (Action.CANCEL, OPEN),
    (Action.RESEND_YIELDING, ("pending", "retrying", "limited", "paused", *ENDED)),
    (Action.CHECK_LIMITS, ("limited",)),
]


@pytest.mark.parametrize(("action", "change"), MANY)
async def test_a_job_leaves_alone_what_its_wish_makes_no_sense_for(
    database: Database, endpoint: str, action: Action, change: tuple[str, ...]
) -> None:
    ids = await seed_all(database, endpoint)
    was = {before: await delivery_row(database, one) for before, one in ids.items()}
    changes = await request_many(database, [*ids.values(), "dlv_unknown"], action)
    moved = {one.delivery_id for one in changes if one.after != one.before}
    assert moved == {ids[before] for before in change}
    for before, delivery in ids.items():
        row = await delivery_row(database, delivery)
        if before in change:
            assert (row.started_at, row.wakes) == (None, 1)
            waits = action is Action.CHECK_LIMITS  # for nobody: it comes with what is due
            assert row.urgency == (Urgency.RETRY if waits else Urgency.JOB)
            assert row.resend_yields == (action is Action.RESEND_YIELDING)
        else:
            assert row == was[before]


@pytest.mark.parametrize("among", [(), ("dead", "gone"), ("pending",), ("delivered",)])
async def test_a_job_acts_on_those_that_still_are_what_it_chose(
    database: Database, endpoint: str, among: tuple[str, ...]
) -> None:
    ids = await seed_all(database, endpoint)
    statuses = [DeliveryStatus(one) for one in among]
    changes = await request_many(
        database, list(ids.values()), Action.RESEND_YIELDING, among=statuses
    )
    changed = {one.delivery_id for one in changes if one.after != one.before}
    if among:
        # what waits for its endpoint's limits is pending too
        fit = {"limited", *among} if "pending" in among else set(among)
    else:
        fit = set(BEFORE) - {"held"}
    assert changed == {ids[before] for before in fit}


async def test_a_job_that_comes_a_second_time_asks_for_nothing_more(
    database: Database, endpoint: str
) -> None:
    """A second redrive, or the same again after a crash: what was dead is not dead any more."""
    delivery = await seed_life(database, endpoint, "dead")
    dead = [DeliveryStatus.DEAD]
    [first] = await request_many(database, [delivery], Action.RESEND_YIELDING, among=dead)
    assert first.after != first.before
    was = await delivery_row(database, delivery)
    assert await request_many(database, [delivery], Action.RESEND_YIELDING, among=dead) == []
    [again] = await request_many(database, [delivery], Action.RESEND_YIELDING)
    assert again.after == again.before
    assert await delivery_row(database, delivery) == was


@pytest.mark.parametrize("over", OVER)
async def test_a_job_sends_nothing_again_to_an_endpoint_that_is_over(
    database: Database, endpoint: str, over: str
) -> None:
    closed = await seed_endpoint(database, "https://example.com/hook", **OVER[over])
    here, there = [await seed_life(database, one, "dead") for one in (endpoint, closed)]
    was = await delivery_row(database, there)
    changes = await request_many(database, [here, there], Action.RESEND_YIELDING)
    assert [one.delivery_id for one in changes] == [here]
    assert await delivery_row(database, there) == was
    [cancelled] = await request_many(database, [await seed_life(database, closed)], Action.CANCEL)
    assert cancelled.after.phase is Phase.CANCELLED


async def test_what_a_person_asked_for_is_not_put_behind_what_a_job_asks(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint, "retrying")
    await ask(database, delivery, "resend")
    await request_many(database, [delivery], Action.PAUSE)
    row = await delivery_row(database, delivery)
    assert (row.status, row.wakes, row.urgency) == ("paused", 2, Urgency.PERSON)


# -- made by hand in the Temporal UI --------------------------------------------------------------


MOMENTS = itertools.count(int(NOW) + 1)


async def hear(database: Database, delivery: str, run: str, count: int, *asked: Action) -> Change:
    """A step that was told of these wishes, the last of the `count` that its run heard. Each comes
    a second later than the one before."""
    async with database.write() as connection:
        heard = ReceivedSignals(run, count, asked)
        return await actions.apply_signals(connection, delivery, heard, now=at(next(MOMENTS)))


async def test_a_signal_is_applied_once_however_often_its_step_is_repeated(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    await hear(database, delivery, "run", 1, Action.PAUSE)
    paused = await stored_life(database, delivery)
    assert paused.phase is Phase.PAUSED
    await ask(database, delivery, "resume")  # by API
    resumed = await stored_life(database, delivery)
    change = await hear(database, delivery, "run", 1, Action.PAUSE)
    assert change.after == change.before == resumed
    assert await stored_life(database, delivery) == resumed


async def test_a_step_that_is_repeated_with_more_signals_applies_the_new_ones(
    database: Database, endpoint: str
) -> None:
    """Its report was lost, and meanwhile another signal came."""
    delivery = await seed_life(database, endpoint)
    await hear(database, delivery, "run", 1, Action.PAUSE)
    await ask(database, delivery, "resume")
    change = await hear(database, delivery, "run", 2, Action.PAUSE, Action.CANCEL)
    assert (change.before.phase, change.after.phase) == (Phase.WAITING, Phase.CANCELLED)
    assert change.after.waiting_since is None
    change = await hear(database, delivery, "run", 3, Action.RESEND)
    assert change.after.round == 1


async def test_another_run_counts_its_signals_from_one(database: Database, endpoint: str) -> None:
    """A delivery that is sent again, or has continued as new, has a new run."""
    delivery = await seed_life(database, endpoint)
    await hear(database, delivery, "first", 2, Action.PAUSE, Action.CANCEL)
    change = await hear(database, delivery, "second", 1, Action.RESEND)
    assert (change.before.phase, change.after.phase) == (Phase.CANCELLED, Phase.WAITING)
    for _ in range(2):
        change = await hear(database, delivery, "second", 1, Action.RESEND)
        assert change.after == change.before
    assert change.after.round == 1


async def test_a_step_that_was_frozen_does_not_have_the_later_ones_applied_again(
    database: Database, endpoint: str
) -> None:
    """Its worker comes back when another has long made the same step, and the next."""
    delivery = await seed_life(database, endpoint)
    await hear(database, delivery, "run", 1, Action.PAUSE)
    await hear(database, delivery, "run", 2, Action.CANCEL)
    await hear(database, delivery, "run", 3, Action.RESEND)
    stale = await hear(database, delivery, "run", 1, Action.PAUSE)
    assert stale.after == stale.before
    again = await hear(database, delivery, "run", 3, Action.RESEND)
    assert again.after == again.before
    assert again.after.round == 1


async def test_what_a_workflow_hears_is_no_news_to_it(database: Database, endpoint: str) -> None:
    delivery = await seed_life(database, endpoint)
    was = await delivery_row(database, delivery)
    await hear(database, delivery, "run", 1, Action.PAUSE)
    row = await delivery_row(database, delivery)
    assert (row.status, row.started_at, row.wakes) == ("paused", was.started_at, 0)


async def test_a_signal_to_a_delivery_that_is_not_there_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        await hear(database, "dlv_unknown", "run", 1, Action.PAUSE)
