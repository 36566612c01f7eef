"""Limits in simulated time: what must never happen, and what that costs."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookfast.endpoints.limits import (
    EARLY,
    HORIZON,
    PATIENCE,
    Deferred,
    Granted,
    Limits,
    LimitState,
    decide,
    mean_after,
)

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@dataclass
class Simulation:
    """One endpoint and its deliveries, each of which checks, waits and checks again, in virtual
    time. `duration` is how long a request takes, and `delay` how much later than its hint a
    delivery comes back (both in seconds)."""

    limits: Limits
    duration: Callable[[], float] = lambda: 0.1
    delay: Callable[[], float] = lambda: 0.02
    vanishing: Callable[[], bool] = lambda: False
    state: LimitState = field(default_factory=lambda: LimitState.initial(START))
    starts: list[datetime] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    checks: int = 0
    most_in_flight: int = 0
    ended_at: datetime = START

    def run(self, arrivals: Sequence[float], *, most_checks: int = 200_000) -> None:
        """Let deliveries arrive at these times (seconds after the start) until all are sent."""
        sequence = count()
        agenda: list[tuple[datetime, int, str, int]] = []

        def plan(at: datetime, what: str, number: int) -> None:
            heapq.heappush(agenda, (at, next(sequence), what, number))

        for number, arrival in enumerate(arrivals):
            plan(START + seconds(arrival), "new", number)
        in_flight = 0
        durations: dict[int, float] = {}
        while agenda:
            now, _, what, number = heapq.heappop(agenda)
            if what == "end":
                in_flight -= 1
                mean = mean_after(self.state.mean_seconds, [durations[number]])
                self.state = replace(self.state, mean_seconds=mean)
                self.delivered.append(number)
                self.ended_at = now
                continue
            self.checks += 1
            assert self.checks <= most_checks, "too many checks"
            answer, self.state = decide(
                self.state,
                limits=self.limits,
                in_flight=in_flight,
                waited=what == "back",
                spread=number * 0.618 % 1,
                now=now,
            )
            if isinstance(answer, Granted):
                assert now <= answer.at <= now + PATIENCE
                in_flight += 1
                self.most_in_flight = max(self.most_in_flight, in_flight)
                self.starts.append(answer.at)
                durations[number] = self.duration()
                plan(answer.at + seconds(durations[number]), "end", number)
            elif not self.vanishing():
                assert now < answer.until <= now + HORIZON + SECOND
                plan(answer.until + seconds(self.delay()), "back", number)

    @property
    def length(self) -> float:
        """Seconds until the last request ended."""
        return (self.ended_at - START).total_seconds()


def most_within(starts: Sequence[datetime], window: timedelta) -> int:
    """Return the most starts within any half-open window of this length."""
    starts = sorted(starts)
    most = first = 0
    for last, start in enumerate(starts):
        while start - starts[first] >= window:
            first += 1
        most = max(most, last - first + 1)
    return most


rates = st.one_of(st.integers(1, 200), st.sampled_from([0.05, 0.3, 0.5, 1.5, 2.5, 33.3]))
ROOM = st.integers(1, 20)


@st.composite
def scenes(draw: st.DrawFn, *, limits: st.SearchStrategy[Limits]) -> tuple[Simulation, list[float]]:
    """Draw an endpoint with these limits, and its deliveries' arrivals: together or spread."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    slowest, latest = draw(st.sampled_from([0.01, 0.3, 3.0])), draw(st.sampled_from([0.0, 0.1, 2]))
    simulation = Simulation(
        draw(limits),
        duration=lambda: dice.uniform(0, slowest),
        delay=lambda: dice.uniform(0, latest),
    )
    spread = draw(st.sampled_from([0.0, 1.0, 20.0]))
    arrivals = [dice.uniform(0, spread) for _ in range(draw(st.integers(1, 150)))]
    return simulation, arrivals


def any_limits(
    rate: st.SearchStrategy[float | None], room: st.SearchStrategy[int | None]
) -> st.SearchStrategy[Limits]:
    return st.builds(Limits, rate_per_second=rate, max_in_flight=room)


@settings(max_examples=60)
@given(scene=scenes(limits=any_limits(rates, st.none() | ROOM)))
def test_no_second_has_more_starts_than_the_rate(scene: tuple[Simulation, list[float]]) -> None:
    simulation, arrivals = scene
    simulation.run(arrivals)
    rate = simulation.limits.rate_per_second
    assert rate is not None
    # a window of one second, or of the one request that a rate below 1 allows
    window = SECOND if rate >= 1 else seconds(1 / rate)
    assert most_within(simulation.starts, window) <= max(1, -(-rate // 1))


@settings(max_examples=60)
@given(scene=scenes(limits=any_limits(st.none() | rates, ROOM)))
def test_requests_in_flight_never_exceed_the_limit(
    scene: tuple[Simulation, list[float]],
) -> None:
    simulation, arrivals = scene
    simulation.run(arrivals)
    assert simulation.limits.max_in_flight is not None
    assert simulation.most_in_flight <= simulation.limits.max_in_flight


@settings(max_examples=60)
@given(scene=scenes(limits=any_limits(st.none() | rates, st.none() | ROOM)))
def test_every_delivery_is_sent_exactly_once(scene: tuple[Simulation, list[float]]) -> None:
    simulation, arrivals = scene
    simulation.run(arrivals)
    assert sorted(simulation.delivered) == list(range(len(arrivals)))


@pytest.mark.parametrize("late", [0.02, 0.15, 0.5])
@pytest.mark.parametrize(("rate", "number"), [(20, 1000), (200, 1000), (1, 100), (0.1, 30)])
def test_burst_is_sent_at_nearly_the_rate(rate: float, number: int, late: float) -> None:
    dice = random.Random(7)
    simulation = Simulation(
        Limits(rate_per_second=rate), duration=lambda: 0.0, delay=lambda: dice.uniform(0, late)
    )
    simulation.run([0.0] * number)
    ideal = (number - 1) / rate
    assert simulation.length <= ideal * 1.15
    # a first check and one more for each, and a few whose place was taken
    assert simulation.checks <= number * 3


@pytest.mark.parametrize("mean", [0.2, 5.0])
@pytest.mark.parametrize("room", [1, 2, 5, 50])
def test_full_endpoint_is_kept_busy(room: int, mean: float) -> None:
    dice = random.Random(7)
    spent: list[float] = []

    def duration() -> float:
        spent.append(dice.uniform(0.5 * mean, 1.5 * mean))
        return spent[-1]

    simulation = Simulation(
        Limits(max_in_flight=room), duration=duration, delay=lambda: dice.uniform(0, 0.05)
    )
    simulation.run([0.0] * 1000)
    assert simulation.length <= sum(spent) / room * 1.2
    assert simulation.checks <= 1000 * 8


def test_cancelled_waits_cost_rate_but_block_nobody() -> None:
    dice = random.Random(7)
    simulation = Simulation(
        Limits(rate_per_second=20, max_in_flight=20), vanishing=lambda: dice.random() < 0.5
    )
    simulation.run([0.0] * 1000)
    assert len(simulation.delivered) > 400
    assert simulation.length <= 1000 / 20 * 1.15


def test_new_deliveries_do_not_overtake_waiting_ones() -> None:
    """100 wait for a rate of 10 per second when deliveries begin to come at twice that rate."""
    simulation = Simulation(Limits(rate_per_second=10), duration=lambda: 0.0)
    simulation.run([0.0] * 100 + [1 + index / 20 for index in range(200)])
    first_hundred = simulation.delivered[:110]
    assert sum(number < 100 for number in first_hundred) >= 95


TEN = Limits(rate_per_second=10)  # a slot every 102 ms


def check(
    state: LimitState,
    limits: Limits = TEN,
    *,
    at: float = 0.0,
    in_flight: int = 0,
    waited: bool = False,
    spread: float = 0.5,
) -> tuple[Granted | Deferred, LimitState]:
    """Check `at` seconds after the start."""
    return decide(
        state,
        limits=limits,
        in_flight=in_flight,
        waited=waited,
        spread=spread,
        now=START + seconds(at),
    )


@pytest.mark.parametrize(
    ("rate", "spacing"),
    [
        (None, 0.0),
        (10, 0.102),  # 1/10 s, and a tenth of 20 ms
        (3, 0.34),  # 1/3 s + 20/3 ms = 0.34 s exactly
        (7, 0.145715),  # 1.02/7 = 0.1457142…, rounded up: ten of them are never less than ten are
        (1, 1.02),
        (1 / 60, 60.02),
        (1e-300, 365 * 86_400.0),  # and not an overflow
    ],
)
def test_spacing_is_a_little_longer_than_the_rate_requires(
    rate: float | None, spacing: float
) -> None:
    assert Limits(rate_per_second=rate).spacing == seconds(spacing)


def test_near_slots_are_waited_for_and_distant_ones_get_hints() -> None:
    state = LimitState.initial(START)
    answers = []
    for _ in range(5):
        answer, state = check(state)
        answers.append(answer)
    # slots at 0, 102, 204, 306, 408 ms; up to 250 ms are waited for, the others come 100 ms early
    assert answers == [
        Granted(START),
        Granted(START + seconds(0.102)),
        Granted(START + seconds(0.204)),
        Deferred(START + seconds(0.306) - EARLY),
        Deferred(START + seconds(0.408) - EARLY),
    ]


def test_hint_is_not_a_permission() -> None:
    state = LimitState(
        next_slot_at=START + seconds(0.3), promised_until=START + seconds(5), mean_seconds=1
    )
    answer, after = check(state, waited=True)
    assert isinstance(answer, Deferred)
    # late by less than a place: it keeps its own, and no other hint moves
    assert answer.until == state.next_slot_at - EARLY
    assert after == state


def test_deliveries_that_do_not_come_back_block_nobody() -> None:
    state = LimitState(next_slot_at=START, promised_until=START + seconds(600), mean_seconds=1)
    behind, _ = check(state, at=0.5)
    assert behind == Deferred(START + seconds(600) - EARLY)
    # the slot is unused for more than a second: no delivery will come
    first, healed = check(state, at=1.5)
    assert first == Granted(START + seconds(1.5))
    second, _ = check(healed, at=1.5)
    assert second == Granted(START + seconds(1.602))


def test_hints_beyond_the_horizon_are_scattered() -> None:
    state = LimitState(
        next_slot_at=START + SECOND, promised_until=START + 2 * HORIZON, mean_seconds=1
    )
    untils = []
    for spread in (0.0, 0.5, 0.999):
        answer, state = check(state, waited=True, spread=spread)
        assert isinstance(answer, Deferred)
        untils.append((answer.until - START) / HORIZON)
        assert state.promised_until == START + HORIZON
    assert untils == pytest.approx([0.5, 0.75, 0.9995])


def test_earlier_slower_limit_does_not_delay_a_new_one() -> None:
    _, state = check(LimitState.initial(START), Limits(rate_per_second=0.001))
    assert state.next_slot_at == START + seconds(1000.02)
    answer, _ = check(state, at=1.0, waited=True)
    # the furthest that a slot of 10 per second can be, and the place in front
    assert answer == Deferred(START + seconds(1) + PATIENCE + seconds(0.102) - EARLY)


@pytest.mark.parametrize("waited", [False, True], ids=["a new one", "one that waits"])
@pytest.mark.parametrize("before", [0.001, 0.01, 1], ids="{} a second".format)
def test_after_a_raised_limit_the_second_check_succeeds(before: float, waited: bool) -> None:
    _, state = check(LimitState.initial(START), Limits(rate_per_second=before))
    state = replace(state, promised_until=START)  # as a change of limits leaves it
    answer, state = check(state, Limits(rate_per_second=100), at=0.1, waited=waited)
    assert isinstance(answer, Deferred)
    at = (answer.until - START).total_seconds()
    answer, _ = check(state, Limits(rate_per_second=100), at=at, waited=True)
    assert isinstance(answer, Granted)
    assert answer.at <= START + seconds(0.1) + PATIENCE + Limits(rate_per_second=100).spacing


def test_full_endpoint_uses_no_slot() -> None:
    limits = Limits(rate_per_second=10, max_in_flight=2)
    answer, after = check(LimitState.initial(START), limits, in_flight=2)
    assert isinstance(answer, Deferred)
    assert after.next_slot_at == START


def test_checks_become_rare_while_a_request_hangs() -> None:
    """The only request in progress hangs for 30 s, when 100 ms are usual."""
    limits = Limits(max_in_flight=1)
    _, state = check(LimitState.initial(START), limits)
    at, gaps = START, []
    while at < START + seconds(30):
        answer, state = decide(state, limits=limits, in_flight=1, waited=True, spread=0.5, now=at)
        assert isinstance(answer, Deferred)
        gaps.append(answer.until - at)
        at = answer.until
    assert len(gaps) < 40
    assert all(earlier <= later for earlier, later in pairwise(gaps))


def test_mean_follows_about_the_last_ten_durations() -> None:
    assert mean_after(1.0, []) == 1.0
    # 1 + 0.2 * (2 - 1) = 1.2; 1.2 + 0.2 * (0.2 - 1.2) = 1.0
    assert mean_after(1.0, [2.0, 0.2]) == pytest.approx(1.0)
    assert mean_after(0.1, [5.0] * 20) == pytest.approx(5.0, rel=0.02)
