"""Whatever happens in the circuit's world, in whatever order: no delivery is lost or stranded, one
probe at most is under way, and nothing opens below the threshold."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from hookfast.deliveries.life import Phase
from hookfast.endpoints.circuit import Cause, EndpointState, State
from tests.unit.endpoints.circuit_world import DEEDS, MOST, SPANS, TIMEOUT, WAITING, World


class WatchedWorld(World):
    """The world, and what always holds in it."""

    @invariant()
    def always(self) -> None:
        # one probe at most is under way: a request is over at its deadline, whenever it is recorded
        under_way = [
            one.id
            for one in self.deliveries
            if one.is_the_probe and one.sent_at is not None and self.now < one.sent_at + TIMEOUT
        ]
        assert len(under_way) <= 1, under_way
        if self.circuit.state is State.CLOSED and self.endpoint is not EndpointState.PAUSED:
            assert self.held() == []
        if self.endpoint.stopped:
            assert self.circuit.state not in WAITING

    def teardown(self) -> None:
        """From now on everything works and the receiver is well: every delivery ends, and sooner
        than a held one would look by itself."""
        if self.endpoint is EndpointState.PAUSED:
            self.somebody("resume")
        self.emit()  # an open circuit with nothing held waits for the next delivery that comes
        left = self.deliveries.copy()
        for _ in range(60):  # four hours; the last delay before a probe is one of them
            self.now += timedelta(minutes=4)
            self.sweep()
            self.start_requested()
            self.turn([])
            self.work_on_all(succeeds=True, steps=3)
            if self.circuit.state is State.CLOSED and not self.deliveries:
                break
        assert self.circuit.state is State.CLOSED
        # what was under way to an endpoint that was disabled meanwhile may still arrive
        ends = {Phase.DELIVERED, Phase.DEAD} if self.endpoint.stopped else {Phase.DELIVERED}
        assert {one.life.phase for one in left} <= ends

    def live_on(self, dice: random.Random) -> Callable[[], None]:
        """The next step of a long life, in which more works than fails."""
        which, succeeds = dice.randrange(MOST), dice.random() < 0.4
        arrive = [dice.random() < 0.7 for _ in range(MOST)]
        return dice.choices(
            [
                self.emit,
                partial(self.work, which, succeeds),
                partial(self.work_on_all, succeeds, 1),
                self.start_requested,
                partial(self.turn, arrive),
                self.sweep,
                partial(self.workers_die, {which}),
                self.temporal_forgets,
                partial(self.send_again, which, dice.random() < 0.3),
                partial(self.cancel, which),
                partial(self.somebody, dice.choices(DEEDS, [2, 3, 1, 6, 3])[0]),
                partial(self.it_is_given_up, dice.choice([Cause.GONE, Cause.GAVE_UP])),
                partial(self.time_passes, dice.choice(SPANS)),
                self.time_passes_until_something_is_due,
            ],
            [5, 30, 10, 10, 20, 1, 2, 0.2, 1, 0.2, 3, 0.1, 10, 5],
        )[0]


def test_no_order_of_events_loses_a_delivery_or_opens_too_early() -> None:
    run_state_machine_as_test(WatchedWorld, settings=settings(stateful_step_count=60))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(one, marks=pytest.mark.slow) for one in range(4, 40))]
)
def test_nor_does_a_long_life(seed: int) -> None:
    dice, world = random.Random(seed), WatchedWorld()
    lived = []
    for _ in range(5_000):
        step = world.live_on(dice)
        lived.append(step)
        step()
        world.always()
    world.teardown()
