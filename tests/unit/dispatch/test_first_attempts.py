"""When first attempts are sent in batches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.dispatch.first_attempts import FirstAttempts, Setting

AT_ONCE = timedelta(milliseconds=5)
LATE = timedelta(seconds=1)


class World:
    """A worker that gets `rate` new deliveries a second."""

    def __init__(self, setting: Setting = "auto") -> None:
        self.now = 100.0
        self.mode = FirstAttempts(setting, now=lambda: self.now)

    def run(self, seconds: float, *, rate: float, oldest: timedelta = AT_ONCE) -> list[bool]:
        """Return whether it batched, ten times a second."""
        seen = []
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.mode.note_leased(round(rate / 10), oldest=oldest, full=False)
            seen.append(self.mode.batched)
        return seen


@pytest.mark.parametrize(("setting", "batched"), [("workflow", False), ("batch", True)])
def test_fixed_setting_is_kept(setting: Setting, batched: bool) -> None:
    world = World(setting)
    assert set(world.run(20, rate=100, oldest=LATE)) == {batched}
    assert set(world.run(20, rate=0)) == {batched}


def test_auto_starts_with_a_workflow_per_delivery() -> None:
    assert not any(World().run(20, rate=10))


def test_auto_batches_when_workflows_would_cost_too_much() -> None:
    world = World()
    seen = world.run(2, rate=30)
    assert not seen[0]
    assert seen[-1]


def test_auto_batches_when_deliveries_are_late() -> None:
    world = World()
    world.run(5, rate=10)
    assert all(world.run(60, rate=10, oldest=LATE))


def test_auto_batches_at_once_when_there_is_no_room_for_more() -> None:
    world = World()
    world.mode.note_leased(16, oldest=AT_ONCE, full=True)
    assert world.mode.batched


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
    seen = world.run(30, rate=5)  # rounded to none: nothing is noted
    assert seen[0]
    assert not seen[-1]


def test_auto_batches_for_some_seconds_at_least() -> None:
    world = World()
    world.mode.note_leased(20, oldest=LATE, full=True)
    seen = world.run(10, rate=0)
    assert all(seen[:45])
    assert not seen[-1]
