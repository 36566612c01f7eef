"""When first attempts travel in batches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.dispatch.first_attempts import FirstAttempts, Setting

AT_ONCE = timedelta(milliseconds=5)
LATE = timedelta(seconds=1)


class World:
    """A worker under `rate` new deliveries a second."""

    def __init__(self, setting: Setting = "auto") -> None:
        self.now = 100.0
        self.mode = FirstAttempts(setting, now=lambda: self.now)

    def run(self, seconds: float, *, rate: float, oldest: timedelta = AT_ONCE) -> list[bool]:
        """What it did, ten times a second."""
        seen = []
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.mode.note_leased(round(rate / 10), oldest=oldest, full=False)
            seen.append(self.mode.batched)
        return seen


@pytest.mark.parametrize(("setting", "batched"), [("workflow", False), ("batch", True)])
def test_a_setting_that_names_one_is_kept(setting: Setting, batched: bool) -> None:
    world = World(setting)
    assert set(world.run(20, rate=100, oldest=LATE)) == {batched}
    assert set(world.run(20, rate=0)) == {batched}


def test_auto_begins_with_a_workflow_for_each() -> None:
    assert not any(World().run(20, rate=10))


def test_auto_batches_where_workflows_would_take_too_much_of_the_machine() -> None:
    world = World()
    seen = world.run(2, rate=30)
    assert not seen[0]
    assert seen[-1]


def test_auto_batches_while_deliveries_come_too_late() -> None:
    world = World()
    world.run(5, rate=10)
    assert all(world.run(60, rate=10, oldest=LATE))


def test_auto_batches_at_once_when_there_are_more_than_there_is_room_for() -> None:
    world = World()
    world.mode.note_leased(16, oldest=AT_ONCE, full=True)
    assert world.mode.batched


def test_auto_does_not_go_back_because_batches_keep_up() -> None:
    """Once it batches nothing is late any more: only fewer deliveries say that it is over."""
    world = World()
    world.run(5, rate=20)
    world.run(1, rate=20, oldest=LATE)
    assert all(world.run(600, rate=20))


def test_auto_goes_back_when_deliveries_come_at_less_than_half_the_rate() -> None:
    world = World()
    world.run(5, rate=20)
    world.run(1, rate=20, oldest=LATE)
    assert all(world.run(30, rate=10))
    seen = world.run(30, rate=5)  # rounded to none: nothing is told
    assert seen[0]
    assert not seen[-1]


def test_auto_batches_for_some_seconds_at_least() -> None:
    world = World()
    world.mode.note_leased(20, oldest=LATE, full=True)
    seen = world.run(10, rate=0)
    assert all(seen[:45])
    assert not seen[-1]
