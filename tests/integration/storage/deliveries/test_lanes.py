"""Lanes: at most one delivery of each is sent at a time, in the order in which events were
committed, whatever people and other transactions do meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import groupby

import pytest
from structlog.testing import capture_logs

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.deliveries.messages import Urgency
from hookfast.dispatch import lane_sweep
from hookfast.errors import Conflict
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, lives, outbox
from hookfast.storage.emitting import late_subscribers
from hookfast.storage.emitting.late_subscribers import LateScope
from hookfast.storage.events import events, lanes
from hookfast.storage.tables import Delivery
from tests.integration.storage.deliveries import ordered
from tests.integration.storage.deliveries.ordered import act, emit, end, seed_ordered
from tests.support.seed import delivery_row

pytestmark = pytest.mark.anyio

_D = Delivery.__table__.c
WAIT = DeadLetterPolicy.WAIT


# -- emitting -------------------------------------------------------------------------------------


async def test_first_event_of_a_lane_is_sent_at_once_and_the_others_queue(
    database: Database,
) -> None:
    await seed_ordered(database)
    a1, a2, b1, none1, none2 = await emit(database, "a", "a", "b", None, None)
    assert await ordered.heads(database) == [none1, a1, b1]
    first, second = await delivery_row(database, a1), await delivery_row(database, a2)
    assert (first.started_at, first.wake_count) == (None, 0)  # in the outbox
    assert second.started_at is not None
    assert (second.status, second.next_attempt_at) == ("pending", None)
    assert (await delivery_row(database, none2)).lane.endswith("/")
    async with database.read() as connection:
        behind = await lanes.heads(connection, [second.lane])
        assert behind == {second.lane: a1}
        assert await lanes.count_queued(connection, second.lane, most=9) == 1


async def test_a_new_delivery_that_moves_up_is_as_new_as_any_other(database: Database) -> None:
    await seed_ordered(database)
    first, second = await emit(database, "a", "a")
    before = utc_now()
    await end(database, first)
    row = await delivery_row(database, second)
    assert (row.place, row.started_at, row.wake_count, row.urgency) == (
        "head",
        None,
        0,
        Urgency.FIRST,
    )
    assert row.next_attempt_at >= before
    async with database.read() as connection:
        [pending] = await outbox.find_many_pending(connection, [second])
    assert pending is not None
    assert pending.new
    assert pending.due_from >= before > pending.created_at  # it is not late
    [lane] = await ordered.lane_rows(database)
    assert (lane.head, lane.needs_head) == (second, False)
    await end(database, second)
    [lane] = await ordered.lane_rows(database)
    assert lane.head is None
    [third] = await emit(database, "a")
    assert await ordered.heads(database) == [third]


async def test_unordered_and_scheduled_events_use_no_lane(database: Database) -> None:
    endpoint = await seed_ordered(database)
    await emit(database, "a")
    later = utc_now() + timedelta(hours=1)
    [scheduled] = await emit(database, None, deliver_at=later)
    assert (await delivery_row(database, scheduled)).lane is None
    await ordered.set_endpoint(database, endpoint, ordered=False)
    plain = await emit(database, "a", "a")
    assert set(plain) < set(await ordered.heads(database))
    assert len(await ordered.lane_rows(database)) == 1


async def test_each_subscription_has_lanes_of_its_own(database: Database) -> None:
    endpoint = await seed_ordered(database)
    await ordered.set_endpoint(database, endpoint, ordered=False)
    own = await ordered.second_subscription(database, endpoint, ordered=True)
    await emit(database, "a", "a", "a")
    unordered, in_lane = [], []
    for row in await ordered.rows(database):
        (in_lane if row.subscription_id == own else unordered).append(row.place)
    assert unordered == [None] * 3
    assert in_lane == ["head", "queued", "queued"]


async def test_order_is_the_order_of_commits_although_clocks_differ(database: Database) -> None:
    await seed_ordered(database)
    expected: list[str] = []
    behind = timedelta(seconds=-30)
    async with (
        ordered.api(database) as one,
        ordered.api(database, clock=lambda: utc_now() + behind) as other,
    ):
        for emitter in (one, other, one, other, other):
            expected += await ordered.emit_with(emitter, ["a", "a"])
    assert [row.event_id for row in await ordered.rows(database)] == expected
    assert sorted(expected) != expected  # their ids do not have this order


async def test_apis_that_emit_at_once_leave_one_head(workers: list[Database]) -> None:
    database = workers[0]
    await seed_ordered(database)
    async with ordered.api(database) as one, ordered.api(database) as other:
        await asyncio.gather(
            *(
                ordered.emit_with(emitter, keys)
                for emitter, keys in ((one, "abc"), (other, "cba")) * 8
            )
        )
    found = await ordered.rows(database)
    for _, lane in groupby(found, key=lambda row: row.lane):
        line = list(lane)
        assert [row.place for row in line] == ["head"] + ["queued"] * 15
        assert len({row.lane_position for row in line}) == 16
    delivered = await ordered.deliver_all(database)
    by_id = {row.id: row for row in found}
    for key in "abc":
        of_lane = [one for one in delivered if by_id[one].lane.endswith(f"/{key}")]
        assert of_lane == [row.id for row in found if row.lane.endswith(f"/{key}")]


async def test_dead_letter_on_arrival_blocks_nobody(database: Database) -> None:
    endpoint = await seed_ordered(database)
    await ordered.set_endpoint(database, endpoint, state="disabled")
    dead = await emit(database, "a", "a")
    assert await ordered.places(database) == ["left", "left"]
    await ordered.set_endpoint(database, endpoint, state="enabled")
    [new] = await emit(database, "a")
    assert await ordered.heads(database) == [new]
    for one in reversed(dead):  # they queue at their old positions, before all later ones
        await act(database, one, Action.RESEND_YIELDING)
    [newer] = await emit(database, "a")
    assert await ordered.deliver_all(database) == [new, *dead, newer]


async def test_late_subscriber_gets_replayed_events_in_the_order_of_the_replay(
    database: Database,
) -> None:
    endpoint = await seed_ordered(database)
    emitted = await emit(database, "a", "a")
    own = await ordered.second_subscription(database, endpoint, ordered=False)
    for one in emitted:
        async with database.write() as connection:
            row = await delivery_row(database, one)
            summary = await events.get_summary(connection, row.event_id)
            assert summary is not None
            await late_subscribers.deliver(connection, summary, LateScope(), now=utc_now())
    late = [row for row in await ordered.rows(database) if row.subscription_id == own]
    assert [row.place for row in late] == ["head", "queued"]
    assert {row.lane for row in late} == {f"{own}/a"}


# -- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status_code", [200, 410, 500])
async def test_next_delivery_moves_up_when_the_head_ends(
    database: Database, status_code: int
) -> None:
    await seed_ordered(database)
    line = await emit(database, "a", "a", "a")
    for one, following in zip(line, [*line[1:], None], strict=True):
        assert await ordered.heads(database) == [one]
        change = await end(database, one, status_code)
        assert change.left_lane
        assert await ordered.heads(database) == ([following] if following else [])


async def test_cancelled_deliveries_are_passed_over(database: Database) -> None:
    await seed_ordered(database)
    one, two, three, four = await emit(database, *"aaaa")
    await act(database, three, Action.CANCEL)
    row = await delivery_row(database, three)
    assert (row.status, row.wake_count) == ("cancelled", 0)  # it had no workflow to wake
    assert row.started_at is not None
    assert await ordered.heads(database) == [one]
    await act(database, one, Action.CANCEL)
    assert await ordered.heads(database) == [two]
    await end(database, two)
    assert await ordered.heads(database) == [four]


async def test_many_that_end_in_one_transaction_advance_their_lanes_once(
    database: Database,
) -> None:
    await seed_ordered(database)
    await emit(database, *"aaabbbc")
    a1, b1, c1 = await ordered.heads(database)
    async with database.write() as connection:
        now = utc_now()
        queued = [row.id for row in await ordered.rows(database) if row.place == "queued"]
        facts = [(one, Action.CANCEL) for one in (a1, b1, c1, queued[0])]
        await lives.apply(connection, facts, now=now, wake=Urgency.JOB)
    a, b, c = ["left", "left", "head"], ["left", "head", "queued"], ["left"]
    assert await ordered.places(database) == [*a, *b, *c]


async def test_paused_delivery_holds_its_lane_when_its_turn_comes(database: Database) -> None:
    await seed_ordered(database)
    one, two, three = await emit(database, *"aaa")
    await act(database, two, Action.PAUSE)
    await end(database, one)
    assert await ordered.heads(database) == []
    row = await delivery_row(database, two)
    assert (row.place, row.status, row.started_at) == ("head", "paused", None)
    await act(database, two, Action.RESUME)
    assert await ordered.deliver_all(database) == [two, three]


# -- resends --------------------------------------------------------------------------------------


async def test_resent_delivery_waits_while_another_is_under_way(database: Database) -> None:
    await seed_ordered(database)
    one, two, three = await emit(database, *"aaa")
    await end(database, one)
    change = await act(database, one, Action.RESEND)
    assert change.after.next_attempt_at is None
    row = await delivery_row(database, one)
    assert (row.place, row.status, row.wake_count) == ("queued", "retrying", 0)
    assert await ordered.heads(database) == [two]
    await end(database, two)
    assert await ordered.heads(database) == [one]
    row = await delivery_row(database, one)
    assert (row.started_at, row.wake_count, row.urgency) == (None, 1, Urgency.RETRY)
    assert await ordered.deliver_all(database) == [one, three]


async def test_resent_delivery_of_an_idle_lane_is_sent_at_once(database: Database) -> None:
    await seed_ordered(database)
    [one] = await emit(database, "a")
    await end(database, one)
    change = await act(database, one, Action.RESEND)
    assert change.after.next_attempt_at is not None
    assert await ordered.heads(database) == [one]
    [lane] = await ordered.lane_rows(database)
    assert lane.head == one
    assert (await delivery_row(database, one)).started_at is None


async def test_redriven_dead_letters_are_sent_in_their_old_order(database: Database) -> None:
    await seed_ordered(database)
    line = await emit(database, *"abab")
    for one in line:
        await end(database, one, 500)
    async with database.write() as connection:
        await actions.request_many(connection, line[::-1], Action.RESEND_YIELDING, now=utc_now())
    delivered = await ordered.deliver_all(database)
    assert [one for one in delivered if one in line[::2]] == line[::2]
    assert [one for one in delivered if one in line[1::2]] == line[1::2]


# -- dead letters that block ----------------------------------------------------------------------


async def test_dead_letter_blocks_until_it_is_resent(database: Database) -> None:
    await seed_ordered(database)
    one, two = await emit(database, *"aa")
    assert not (await end(database, one, 500, policy=WAIT)).left_lane
    assert await ordered.heads(database) == []
    async with database.write() as connection:
        change = await actions.request(connection, one, "resend", now=utc_now())
    assert change.after.next_attempt_at is not None
    assert await ordered.heads(database) == [one]
    assert await ordered.deliver_all(database) == [one, two]


async def test_dead_letter_blocks_until_it_is_cancelled(database: Database) -> None:
    await seed_ordered(database)
    one, two = await emit(database, *"aa")
    await end(database, one, 500, policy=WAIT)
    async with database.write() as connection:
        await actions.request(connection, one, "cancel", now=utc_now())
    assert (await delivery_row(database, one)).status == "cancelled"
    assert await ordered.heads(database) == [two]


async def test_only_a_dead_letter_that_blocks_can_be_cancelled(database: Database) -> None:
    await seed_ordered(database)
    [one] = await emit(database, "a")
    await end(database, one, 500)
    with pytest.raises(Conflict):
        async with database.write() as connection:
            await actions.request(connection, one, "cancel", now=utc_now())


async def test_blocking_dead_letters_leave_once_the_setting_says_continue(
    database: Database,
) -> None:
    await seed_ordered(database)
    one, two = await emit(database, *"aa")
    await end(database, one, 500, policy=WAIT)
    assert await lane_sweep.inspect_page(database, "", dead_letters=WAIT) == (0, None)
    assert await ordered.heads(database) == []
    continues = DeadLetterPolicy.CONTINUE
    assert await lane_sweep.inspect_page(database, "", dead_letters=continues) == (1, None)
    assert await ordered.heads(database) == [two]
    assert (await delivery_row(database, one)).status == "dead"


# -- log lines ------------------------------------------------------------------------------------


async def test_lines_of_a_lane_are_in_the_order_of_what_happened(database: Database) -> None:
    await seed_ordered(database)
    first, second = await emit(database, "a", "a")
    with capture_logs() as lines:
        await act(database, first, Action.CANCEL)
        await act(database, second, Action.CANCEL)
        await act(database, first, Action.RESEND)
    assert [(line["kind"], line["delivery_id"]) for line in lines] == [
        ("delivery.ended", first),
        ("delivery.moved_up", second),
        ("delivery.ended", second),
        ("delivery.resent", first),
        ("delivery.queued", first),
        ("delivery.moved_up", first),
    ]
