"""In any order of events around a circuit, no delivery is lost or stuck, at most one probe is in
progress, and the circuit does not open below the threshold."""

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
from tests.unit.endpoints.circuit_world import ACTIONS, MOST, SPANS, TIMEOUT, WAITING, World


class WatchedWorld(World):
    """The world of `circuit_world`, with the rules that always hold."""

    @invariant()
    def always(self) -> None:
        # at most one probe is in progress; a request ends at its deadline, even if recorded later
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
        """From now on everything works: every delivery ends, and sooner than a held one would be
        checked by itself."""
        if self.endpoint is EndpointState.PAUSED:
            self.person_acts("resume")
        self.emit()  # an open circuit that holds nothing waits for the next delivery
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
        # a request in progress to an endpoint that was disabled meanwhile may still succeed
        ends = {Phase.DELIVERED, Phase.DEAD} if self.endpoint.stopped else {Phase.DELIVERED}
        assert {one.life.phase for one in left} <= ends

    def next_step_of_a_long_life(self, dice: random.Random) -> Callable[[], None]:
        """Choose the next step of a long life, in which more succeeds than fails."""
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
                partial(self.resend, which, dice.random() < 0.3),
                partial(self.cancel, which),
                partial(self.person_acts, dice.choices(ACTIONS, [2, 3, 1, 6, 3])[0]),
                partial(
                    self.endpoint_is_disabled_by_itself, dice.choice([Cause.GONE, Cause.GAVE_UP])
                ),
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
def test_long_life_loses_no_delivery_and_opens_no_circuit_too_early(seed: int) -> None:
    dice, world = random.Random(seed), WatchedWorld()
    lived = []
    for _ in range(5_000):
        step = world.next_step_of_a_long_life(dice)
        lived.append(step)
        step()
        world.always()
    world.teardown()
