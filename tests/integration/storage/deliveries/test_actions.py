"""Actions on deliveries by people, jobs and signals: each is applied in one transaction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, get_args

import pytest

from hookfast.deliveries.facts import Action
from hookfast.deliveries.life import Phase
from hookfast.deliveries.messages import ReceivedSignals, Urgency
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import Conflict, NotFound
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.life_rows import Change
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

INACTIVE: Final[dict[str, dict[str, Any]]] = {
    "disabled": {"state": "disabled"},
    "deleted": {"deleted_at": at(0)},
}
NOW: Final = 10.0

# A delivery's status at `NOW`, the action requested then, and the resulting status and time of the
# next attempt (None: unchanged). A resent delivery is pending instead of retrying if no attempt of
# it was made before.
WAITS = at(61.005)
ACTIONS: list[tuple[str, UserAction, tuple[str, Any] | None]] = [
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


async def request(
    database: Database, delivery: str, action: UserAction, *, now: float = NOW
) -> Change:
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
    """Store a delivery in each status. Returns their ids by status."""
    return {before: await seed_life(database, endpoint, before) for before in BEFORE}


# -- actions of people ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", BEFORE)
async def test_a_persons_action_is_applied_at_once_and_put_into_the_outbox(
    database: Database, endpoint: str, before: str
) -> None:
    for action, then in ((action, then) for status, action, then in ACTIONS if status == before):
        delivery = await seed_life(database, endpoint, before)
        was = await delivery_row(database, delivery)
        change = await request(database, delivery, action)
        assert change.before == life_after(BEFORE[before])
        assert change.after == await stored_life(database, delivery)
        row = await delivery_row(database, delivery)
        if then is None:
            assert row == was, action
            continue
        assert (row.status, row.next_attempt_at) == then, action
        assert row.updated_at == at(NOW)
        # its workflow is not woken yet
        assert (row.started_at, row.leased_until, row.wake_count) == (None, None, 1)
        assert row.urgency == Urgency.PERSON


async def test_resending_an_ended_delivery_starts_its_plan_again(
    database: Database, endpoint: str
) -> None:
    for before in ENDED:
        delivery = await seed_life(database, endpoint, before)
        await request(database, delivery, "resend")
        row = await delivery_row(database, delivery)
        assert (row.finished_at, row.reason, row.round, row.retries) == (None, None, 1, 0), before
        assert (row.resend_asked_at, row.resend_yields) == (at(NOW), False), before
        assert row.attempts == (0 if before == "cancelled" else 1), before


async def test_an_ended_delivery_accepts_no_action_but_resend(
    database: Database, endpoint: str
) -> None:
    refused: tuple[UserAction, ...] = ("pause", "resume", "cancel")
    for before in ENDED:
        delivery = await seed_life(database, endpoint, before)
        was = await delivery_row(database, delivery)
        for action in refused:
            with pytest.raises(Conflict) as caught:
                await request(database, delivery, action)
            assert caught.value.code == "delivery_finished"
            assert before in caught.value.message
            assert await delivery_row(database, delivery) == was, (before, action)


@pytest.mark.parametrize("inactive", INACTIVE)
async def test_resend_to_a_disabled_or_deleted_endpoint_is_a_conflict(
    database: Database, inactive: str
) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", **INACTIVE[inactive])
    for before in BEFORE:
        delivery = await seed_life(database, endpoint, before)
        was = await delivery_row(database, delivery)
        with pytest.raises(Conflict) as caught:
            await request(database, delivery, "resend")
        assert caught.value.code == "endpoint_disabled"
        assert inactive in caught.value.message
        assert await delivery_row(database, delivery) == was, before


@pytest.mark.parametrize("inactive", INACTIVE)
async def test_other_actions_are_possible_for_a_disabled_or_deleted_endpoint(
    database: Database, inactive: str
) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", **INACTIVE[inactive])
    for before, action, then in (case for case in ACTIONS if case[1] != "resend"):
        delivery = await seed_life(database, endpoint, before)
        await request(database, delivery, action)
        row = await delivery_row(database, delivery)
        expected = (before if before != "limited" else "pending") if then is None else then[0]
        assert row.status == expected, (before, action)


async def test_resend_to_a_paused_endpoint_is_accepted(database: Database) -> None:
    endpoint = await seed_endpoint(database, "https://example.com/hook", state="paused")
    delivery = await seed_life(database, endpoint, "dead")
    assert (await request(database, delivery, "resend")).after.phase is Phase.WAITING


async def test_an_action_on_an_unknown_delivery_raises_not_found(database: Database) -> None:
    for action in get_args(UserAction):
        with pytest.raises(NotFound):
            await request(database, "dlv_unknown", action)


# -- actions of jobs ------------------------------------------------------------------------------

# A job's resend yields to circuits, and a held delivery is sent anyway once its circuit closes.
MANY: list[tuple[Action, tuple[str, ...]]] = [
    (Action.PAUSE, ("pending", "retrying", "limited", "held")),
    (Action.RESUME, ("paused",)),
    (Action.CANCEL, OPEN),
    (Action.RESEND_YIELDING, ("pending", "retrying", "limited", "paused", *ENDED)),
    (Action.CHECK_LIMITS, ("limited",)),
]


@pytest.mark.parametrize(("action", "change"), MANY)
async def test_a_jobs_action_changes_only_deliveries_for_which_it_is_possible(
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
            assert (row.started_at, row.wake_count) == (None, 1)
            is_due = action is Action.CHECK_LIMITS  # not less urgent than a retry
            assert row.urgency == (Urgency.RETRY if is_due else Urgency.JOB)
            assert row.resend_yields == (action is Action.RESEND_YIELDING)
        else:
            assert row == was[before]


@pytest.mark.parametrize("among", [(), ("dead", "gone"), ("pending",), ("delivered",)])
async def test_a_job_acts_only_on_deliveries_that_still_have_a_selected_status(
    database: Database, endpoint: str, among: tuple[str, ...]
) -> None:
    ids = await seed_all(database, endpoint)
    statuses = [DeliveryStatus(one) for one in among]
    changes = await request_many(
        database, list(ids.values()), Action.RESEND_YIELDING, among=statuses
    )
    changed = {one.delivery_id for one in changes if one.after != one.before}
    if among:
        # a delivery that waits for its endpoint's limits is pending too
        expected = {"limited", *among} if "pending" in among else set(among)
    else:
        expected = set(BEFORE) - {"held"}
    assert changed == {ids[before] for before in expected}


async def test_repeating_a_jobs_action_changes_nothing(database: Database, endpoint: str) -> None:
    """A second redrive, or a repetition after a crash: the delivery is no longer dead."""
    delivery = await seed_life(database, endpoint, "dead")
    dead = [DeliveryStatus.DEAD]
    [first] = await request_many(database, [delivery], Action.RESEND_YIELDING, among=dead)
    assert first.after != first.before
    was = await delivery_row(database, delivery)
    assert await request_many(database, [delivery], Action.RESEND_YIELDING, among=dead) == []
    [again] = await request_many(database, [delivery], Action.RESEND_YIELDING)
    assert again.after == again.before
    assert await delivery_row(database, delivery) == was


@pytest.mark.parametrize("inactive", INACTIVE)
async def test_a_job_resends_nothing_to_a_disabled_or_deleted_endpoint(
    database: Database, endpoint: str, inactive: str
) -> None:
    closed = await seed_endpoint(database, "https://example.com/hook", **INACTIVE[inactive])
    here, there = [await seed_life(database, one, "dead") for one in (endpoint, closed)]
    was = await delivery_row(database, there)
    changes = await request_many(database, [here, there], Action.RESEND_YIELDING)
    assert [one.delivery_id for one in changes] == [here]
    assert await delivery_row(database, there) == was
    [cancelled] = await request_many(database, [await seed_life(database, closed)], Action.CANCEL)
    assert cancelled.after.phase is Phase.CANCELLED


async def test_a_persons_action_stays_urgent_when_a_job_acts_too(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint, "retrying")
    await request(database, delivery, "resend")
    await request_many(database, [delivery], Action.PAUSE)
    row = await delivery_row(database, delivery)
    assert (row.status, row.wake_count, row.urgency) == ("paused", 2, Urgency.PERSON)


# -- signals sent directly, as in the Temporal UI -------------------------------------------------

MOMENTS = itertools.count(int(NOW) + 1)


async def apply_signals(
    database: Database, delivery: str, run: str, count: int, *received: Action
) -> Change:
    """Apply these signals, the last of the `count` that the run has received. Each call happens a
    second after the one before."""
    async with database.write() as connection:
        signals = ReceivedSignals(run, count, received)
        return await actions.apply_signals(connection, delivery, signals, now=at(next(MOMENTS)))


async def test_a_signal_is_applied_once_however_often_its_step_is_repeated(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    paused = await stored_life(database, delivery)
    assert paused.phase is Phase.PAUSED
    await request(database, delivery, "resume")  # through the API
    resumed = await stored_life(database, delivery)
    change = await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    assert change.after == change.before == resumed
    assert await stored_life(database, delivery) == resumed


async def test_a_step_that_is_repeated_with_more_signals_applies_the_new_ones(
    database: Database, endpoint: str
) -> None:
    """The step's result was lost, and meanwhile another signal arrived."""
    delivery = await seed_life(database, endpoint)
    await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    await request(database, delivery, "resume")
    change = await apply_signals(database, delivery, "run", 2, Action.PAUSE, Action.CANCEL)
    assert (change.before.phase, change.after.phase) == (Phase.WAITING, Phase.CANCELLED)
    assert change.after.waiting_since is None
    change = await apply_signals(database, delivery, "run", 3, Action.RESEND)
    assert change.after.round == 1


async def test_another_run_counts_its_signals_from_one(database: Database, endpoint: str) -> None:
    """A delivery that is resent, or whose workflow continued as new, has a new run."""
    delivery = await seed_life(database, endpoint)
    await apply_signals(database, delivery, "first", 2, Action.PAUSE, Action.CANCEL)
    change = await apply_signals(database, delivery, "second", 1, Action.RESEND)
    assert (change.before.phase, change.after.phase) == (Phase.CANCELLED, Phase.WAITING)
    for _ in range(2):
        change = await apply_signals(database, delivery, "second", 1, Action.RESEND)
        assert change.after == change.before
    assert change.after.round == 1


async def test_a_frozen_step_does_not_cause_later_signals_to_be_applied_again(
    database: Database, endpoint: str
) -> None:
    """Its worker continues after another worker made the same step and the next."""
    delivery = await seed_life(database, endpoint)
    await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    await apply_signals(database, delivery, "run", 2, Action.CANCEL)
    await apply_signals(database, delivery, "run", 3, Action.RESEND)
    stale = await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    assert stale.after == stale.before
    again = await apply_signals(database, delivery, "run", 3, Action.RESEND)
    assert again.after == again.before
    assert again.after.round == 1


async def test_signals_do_not_put_their_delivery_into_the_outbox(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_life(database, endpoint)
    was = await delivery_row(database, delivery)
    await apply_signals(database, delivery, "run", 1, Action.PAUSE)
    row = await delivery_row(database, delivery)
    assert (row.status, row.started_at, row.wake_count) == ("paused", was.started_at, 0)


async def test_a_signal_to_an_unknown_delivery_raises_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        await apply_signals(database, "dlv_unknown", "run", 1, Action.PAUSE)
