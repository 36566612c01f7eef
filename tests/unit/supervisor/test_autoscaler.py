"""When `up` runs a further worker, on a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hookfast.supervisor.autoscaler import Autoscaler, Load

# cores as measured with `hookfast up` on two cores: by one worker, by all APIs, idle
_BATCHES = Load(workers=(0.89,), apis=0.21, idle=0.5)
_BATCHES_ON_POSTGRESQL = Load(workers=(0.77,), apis=0.15, idle=0.45)
_SINGLES = Load(workers=(0.73,), apis=0.59, idle=0.35)
_BATCHES_BY_TWO = Load(workers=(0.57, 0.56), apis=0.27, idle=0.19)
_SINGLES_BY_TWO = Load(workers=(0.42, 0.42), apis=0.51, idle=0.35)
_CALM_SINGLES = Load(workers=(0.62,), apis=0.54, idle=0.7)
_CALM_SINGLES_BY_TWO = Load(workers=(0.39, 0.38), apis=0.52, idle=0.55)
_BROAD = Load(workers=(0.55, 0.55), apis=0.6, idle=2.0)
_FEW = Load(workers=(0.2, 0.2), apis=0.1, idle=1.4)


def _steps(autoscaler: Autoscaler, load: Load, *, seconds: int) -> list[tuple[int, str]]:
    """Return the steps and after how many samples each was taken."""
    steps = ((second, autoscaler.next(load)) for second in range(1, seconds + 1))
    return [(second, step) for second, step in steps if step is not None]


@pytest.mark.parametrize("load", [_BATCHES, _BATCHES_ON_POSTGRESQL])
def test_full_worker_gets_help_after_three_seconds_if_a_core_idles(load: Load) -> None:
    assert _steps(Autoscaler(least=1, most=2), load, seconds=3) == [(3, "start")]


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(_SINGLES, id="no core idles"),
        pytest.param(_CALM_SINGLES, id="events come one by one"),
        pytest.param(Load(workers=(0.75,), apis=0.6, idle=0.6), id="more of them"),
        pytest.param(Load(workers=(0.5,), apis=0.1, idle=1.0), id="not full"),
        pytest.param(Load(workers=(0.9, 0.4), apis=0.1, idle=2.0), id="one of two is not full"),
    ],
)
def test_no_worker_starts_that_would_not_help(load: Load) -> None:
    assert _steps(Autoscaler(least=1, most=4), load, seconds=600) == []


def test_short_pause_begins_the_count_again() -> None:
    autoscaler = Autoscaler(least=1, most=2)
    assert _steps(autoscaler, _BATCHES, seconds=2) == []
    assert _steps(autoscaler, _SINGLES, seconds=1) == []
    assert _steps(autoscaler, _BATCHES, seconds=2) == []


def test_no_more_start_than_allowed() -> None:
    both_full = Load(workers=(0.9, 0.9), apis=0.1, idle=2.0)
    assert _steps(Autoscaler(least=1, most=2), both_full, seconds=600) == []
    assert _steps(Autoscaler(least=1, most=3), both_full, seconds=3) == [(3, "start")]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(_BATCHES_BY_TWO, [], id="both are needed"),
        pytest.param(_BROAD, [], id="the API has a core of its own"),
        pytest.param(_SINGLES_BY_TWO, [(5, "stop")], id="the API needs the core"),
        pytest.param(_CALM_SINGLES_BY_TWO, [(5, "stop")], id="events come one by one"),
        pytest.param(_FEW, [(30, "stop")], id="one suffices"),
    ],
)
def test_further_worker_stops_when_it_is_of_no_use(
    load: Load, expected: list[tuple[int, str]]
) -> None:
    stopped = _steps(Autoscaler(least=1, most=2), load, seconds=31)
    assert stopped[:1] == expected


def test_the_first_workers_stay_whatever_the_load() -> None:
    for load in (_SINGLES_BY_TWO, _FEW):
        assert _steps(Autoscaler(least=2, most=2), load, seconds=600) == []


@dataclass(frozen=True)
class _Costs:
    """Cores that a thousand deliveries a second take: of one worker, of two together, of the API,
    and of all others."""

    alone: float
    by_two: float
    api: float
    others: float


_COSTS_OF_BATCHES = _Costs(alone=0.51, by_two=0.51, api=0.12, others=0.19)
_COSTS_OF_SINGLES = _Costs(alone=2.7, by_two=3.4, api=2.3, others=0.4)


@dataclass
class _Machine:
    cores: float
    offered: float
    costs: _Costs
    workers: int = 1

    def load(self) -> Load:
        each = self.costs.alone if self.workers == 1 else self.costs.by_two
        sum_of_all = each + self.costs.api + self.costs.others
        rate = min(
            self.offered / 1_000,
            0.9 * self.workers / each,  # full workers
            1 / self.costs.api,
            self.cores / sum_of_all,  # a full machine
        )
        return Load(
            workers=(rate * each / self.workers,) * self.workers,
            apis=rate * self.costs.api,
            idle=self.cores - rate * sum_of_all,
        )

    def steps_in(self, seconds: int) -> list[str]:
        autoscaler = Autoscaler(least=1, most=2)
        steps = []
        for _ in range(seconds):
            step = autoscaler.next(self.load())
            if step is not None:
                steps.append(step)
                self.workers += 1 if step == "start" else -1
        return steps


@pytest.mark.parametrize("cores", [2, 4, 8])
@pytest.mark.parametrize("offered", range(100, 3000, 50))
def test_steady_batches_never_make_workers_come_and_go(cores: int, offered: int) -> None:
    steps = _Machine(cores, offered, _COSTS_OF_BATCHES).steps_in(600)
    assert steps in ([], ["start"])
    assert bool(steps) == (offered >= 1_400)


@pytest.mark.parametrize("cores", [2, 2.5, 3, 3.5, 4, 8])
@pytest.mark.parametrize("offered", range(20, 600, 10))
def test_steady_single_events_never_make_workers_come_and_go(cores: float, offered: int) -> None:
    steps = _Machine(cores, offered, _COSTS_OF_SINGLES).steps_in(600)
    assert steps in ([], ["start"])
    if cores <= 3 or offered < 260:
        assert steps == []
    elif cores >= 4:
        assert steps == ["start"]
