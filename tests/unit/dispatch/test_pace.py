"""How much a worker has in hand, simulated on a clock that only the test moves."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta

import pytest

from hookfast.deliveries.batch_messages import MOST
from hookfast.deliveries.messages import Urgency
from hookfast.dispatch.pace import MOST_STARTS, Allowance, InHand, Pace, Setting

AT_ONCE, LATE = timedelta(milliseconds=5), timedelta(seconds=1)
QUICK, SLOW, SLOW_STEP = 0.01, 1.0, 2.0


class World:
    """A worker that gets new deliveries, and asks Temporal to start their workflows."""

    def __init__(self, setting: Setting = "auto") -> None:
        self.now = 1_000.0
        self.pace = Pace(setting, now=lambda: self.now)
        self.number = 0

    def run(self, seconds: float, *, rate: float, oldest: timedelta = AT_ONCE) -> list[bool]:
        """Claim new deliveries ten times a second. Return whether it batched after each."""
        seen = []
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            if count := round(rate / 10):
                self.pace.claimed(count, oldest=oldest)
            seen.append(self.pace.batched)
        return seen

    def begin(self) -> str:
        self.number += 1
        self.pace.start_begins(f"dlv_{self.number}")
        return f"dlv_{self.number}"

    def answer(self, seconds: float, *, times: int = 1, at_once: int = 1) -> None:
        """Let Temporal answer so many starts, one after the other or some at once."""
        for _ in range(times):
            begun = [self.begin() for _ in range(at_once)]
            self.now += seconds
            for one in begun:
                self.pace.start_ended(one, answered=True)

    def started(self) -> str:
        """A start whose first step is to begin in this process."""
        one = self.begin()
        self.pace.start_ended(one, answered=True, step_here=True)
        return one

    def fail(self, seconds: float) -> None:
        one = self.begin()
        self.now += seconds
        self.pace.start_ended(one, answered=False)


@pytest.fixture
def world() -> World:
    """A worker that has seen how quickly Temporal can answer."""
    world = World()
    world.answer(QUICK)
    return world


# -- starts at once -------------------------------------------------------------------------------


def test_starts_grow_while_answers_are_quick(world: World) -> None:
    world.answer(QUICK, times=2_000)
    assert world.pace.start_window == MOST_STARTS


def test_slow_answers_in_a_row_leave_one_start_at_a_time(world: World) -> None:
    world.answer(SLOW, times=20)
    assert world.pace.start_window == 1
    world.begin()
    assert not world.pace.may_start


def test_slow_answers_to_concurrent_starts_halve_the_window_once(world: World) -> None:
    before = world.pace.start_window
    world.answer(SLOW, at_once=before)
    assert world.pace.start_window == before // 2


def test_distant_temporal_does_not_count_as_slow() -> None:
    world = World()
    world.answer(0.3, times=2_000)
    assert world.pace.start_window == MOST_STARTS


def test_temporal_that_has_moved_away_is_not_slow_for_ever(world: World) -> None:
    world.answer(0.3, times=10_000)
    assert world.pace.start_window == MOST_STARTS


def test_starts_recover_after_slow_answers(world: World) -> None:
    world.answer(SLOW, times=20)
    world.answer(QUICK, times=100)
    assert world.pace.start_window > 8


def test_slow_failure_halves_the_window(world: World) -> None:
    before = world.pace.start_window
    world.fail(SLOW)
    assert world.pace.start_window == before // 2


def test_quick_failure_does_not_make_distant_answers_slow() -> None:
    world = World()
    for _ in range(100):
        world.fail(0.001)
    assert world.pace.start_window == World().pace.start_window
    world.answer(0.3, times=2_000)
    assert world.pace.start_window == MOST_STARTS


# -- first steps that wait in this process --------------------------------------------------------


def test_first_steps_that_begin_late_let_half_as_many_be_started(world: World) -> None:
    first = [world.started() for _ in range(8)]
    world.now += SLOW_STEP
    for one in first:  # they were started together, so this halves it once
        world.pace.step_begins(one)
    assert world.pace.start_window == 4
    second = [world.started() for _ in range(4)]
    assert not world.pace.may_start
    world.pace.step_begins("dlv_other")  # of another process, or a repeated one
    assert not world.pace.may_start
    room = []
    world.pace.on_room = lambda: room.append(True)
    world.pace.step_begins(second[0])
    assert world.pace.may_start
    assert room == [True]


def test_steps_are_limited_less_when_they_begin_soon_again(world: World) -> None:
    one = world.started()
    world.now += SLOW_STEP
    world.pace.step_begins(one)
    assert world.pace.start_window == 1
    for _ in range(100):
        one = world.started()
        world.now += QUICK
        world.pace.step_begins(one)
    assert world.pace.start_window > 8


def test_step_that_begins_before_temporal_answers_is_not_waited_for(world: World) -> None:
    for _ in range(1_000):
        one = world.begin()
        world.pace.step_begins(one)
        world.pace.start_ended(one, answered=True, step_here=True)
    assert world.pace.may_start


def test_step_that_never_begins_is_waited_for_as_long_as_its_task_lasts(world: World) -> None:
    one = world.started()
    world.now += SLOW_STEP
    world.pace.step_begins(one)
    world.started()
    world.now += 9.9
    assert not world.pace.may_start
    world.now += 0.2
    assert world.pace.may_start


# -- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "batched"), [("workflow", False), ("batch", True)])
def test_fixed_setting_is_kept(setting: Setting, batched: bool) -> None:
    world = World(setting)
    assert set(world.run(20, rate=100, oldest=LATE)) == {batched}
    assert set(world.run(20, rate=0)) == {batched}


def test_auto_starts_with_a_workflow_per_delivery() -> None:
    assert not any(World().run(20, rate=10))


def test_auto_batches_when_workflows_would_cost_too_much() -> None:
    seen = World().run(2, rate=30)
    assert not seen[0]
    assert seen[-1]


def test_auto_batches_when_deliveries_are_late() -> None:
    world = World()
    world.run(5, rate=10)
    assert all(world.run(60, rate=10, oldest=LATE))


@pytest.mark.parametrize(
    ("starting", "claimed", "batched"), [(0, 8, False), (0, 9, True), (8, 1, True)]
)
def test_auto_batches_at_once_when_many_workflows_would_start(
    starting: int, claimed: int, batched: bool
) -> None:
    world = World()
    for number in range(starting):
        world.started() if number % 2 else world.begin()
    world.pace.claimed(claimed, oldest=AT_ONCE)
    assert world.pace.batched is batched


def test_auto_keeps_batching_while_deliveries_come_as_fast() -> None:
    """While it batches, nothing is late: only a lower rate shows that the load is over."""
    world = World()
    world.run(5, rate=20)
    world.run(1, rate=20, oldest=LATE)
    assert all(world.run(600, rate=20))


def test_auto_stops_batching_below_half_the_rate() -> None:
    world = World()
    world.run(5, rate=20)
    world.run(1, rate=20, oldest=LATE)
    assert all(world.run(30, rate=10))
    seen = world.run(30, rate=5)  # rounded to none: nothing is claimed
    assert seen[0]
    assert not seen[-1]


def test_auto_batches_for_some_seconds_at_least() -> None:
    world = World()
    world.pace.claimed(20, oldest=LATE)
    seen = world.run(10, rate=0)
    assert all(seen[:45])
    assert not seen[-1]


def test_slow_worker_takes_fewer_deliveries_into_a_batch_and_recovers() -> None:
    pace, sizes = Pace(), []
    for took in (0.2, 2.0, 3.0, 3.0, 3.0, 2.0, 1.1, 0.2):
        pace.batch_rested(took)
        sizes.append(pace.batch_size)
    # 2 s are no reason to change
    assert sizes == [MOST, MOST, 50, 32, 32, 32, 64, MOST]


# -- what may be claimed --------------------------------------------------------------------------

PERSON, RETRY, JOB = Urgency.PERSON, Urgency.RETRY, Urgency.JOB


@pytest.mark.parametrize(
    ("setting", "late", "has", "allowed"),
    [
        # eight starts at once, and as many may wait for their turn
        ("workflow", False, InHand(), Allowance(16, JOB)),
        ("workflow", False, InHand(starting=10, batch_room=50), Allowance(6, JOB)),
        # requests by a person are claimed in any case, as many as one claim may have
        ("workflow", False, InHand(starting=16), Allowance(64, PERSON)),
        ("workflow", False, InHand(starting=64, persons=64), Allowance(0, PERSON)),
        ("batch", False, InHand(batch_room=50), Allowance(16, RETRY, 50, True)),
        ("batch", False, InHand(starting=16, batch_room=50), Allowance(64, PERSON, 50, True)),
        ("batch", False, InHand(), Allowance(16, RETRY, 0, True)),
        # while retries are late, four new deliveries are in progress, in workflows of their own
        ("batch", True, InHand(batch_room=50), Allowance(16, RETRY, 4, False)),
        ("workflow", True, InHand(starting=5, new=3), Allowance(11, RETRY, 1, False)),
        ("workflow", True, InHand(starting=9, new=9), Allowance(7, RETRY, 0, False)),
        ("workflow", True, InHand(starting=16), Allowance(64, PERSON, 0, False)),
    ],
)
def test_what_may_be_claimed(setting: Setting, late: bool, has: InHand, allowed: Allowance) -> None:
    pace = Pace(setting)
    if late:
        pace.retry_began(timedelta(seconds=1.1))
    assert pace.allowance(has) == allowed


@pytest.mark.parametrize(
    ("took", "found", "gather"),
    [(0.004, 1, 0.002), (0.004, 2, 0.004), (0.004, 4, 0.008), (0.004, 50, 0.008), (2.0, 50, 0.03)],
)
def test_deliveries_gather_for_longer_if_claims_are_slow_and_many_come(
    took: float, found: int, gather: float
) -> None:
    pace = Pace("batch")
    pace.claim_took(took, found=found)
    assert pace.gather_seconds == gather


def test_retries_are_late_for_some_seconds(world: World) -> None:
    world.pace.retry_began(timedelta(seconds=0.9))
    assert not world.pace.retries_are_late
    world.pace.retry_began(timedelta(seconds=1.1))
    world.now += 9
    assert world.pace.retries_are_late
    world.now += 2
    assert not world.pace.retries_are_late


@pytest.mark.parametrize(
    ("setting", "has", "more"),
    [
        ("workflow", InHand(starting=8), True),
        ("workflow", InHand(starting=9), False),  # half of 16 start before more are claimed
        ("batch", InHand(starting=16, batch_room=1), True),
        ("batch", InHand(), False),
    ],
)
def test_when_it_is_time_to_claim(setting: Setting, has: InHand, more: bool) -> None:
    assert Pace(setting).wants_more(has) is more


def test_endpoint_with_its_share_of_slow_requests_has_fewer_deliveries_in_progress() -> None:
    pace = Pace()
    assert pace.endpoint_room("ep_1", 150) == 50
    assert pace.endpoint_room("ep_1", 250) == 0
    with ExitStack() as slow:
        while not pace.slow_requests.share_is_used("ep_1"):
            slow.enter_context(pace.slow_requests.take("ep_1"))
        assert (pace.endpoint_room("ep_1", 10), pace.endpoint_room("ep_1", 16)) == (6, 0)
        assert pace.endpoint_room("ep_2", 150) == 50
    assert pace.endpoint_room("ep_1", 150) == 50
