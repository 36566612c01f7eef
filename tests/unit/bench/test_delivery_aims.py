"""Which aims a run reached: rates relative to its own floor, other figures as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.delivery.aims import aims
from bench.delivery.figures import (
    BATCHES,
    FAN_OUT,
    FLOOR,
    SINGLES,
    BlackHole,
    Burst,
    Fairness,
    Figures,
    Latency,
    Memory,
    Quantiles,
    Rates,
    Side,
)
from bench.delivery.plan import MODES, PARTS, chosen

FLOOR_RATE = 70.0


def rates(
    database: str = "sqlite",
    mode: str = "auto",
    *,
    batches: float = 20.0,
    singles: float = 12.0,
    cpu: float = 0.08,
) -> Rates:
    """Return rates and CPU in multiples of the floor's."""
    sides = {}
    for name, multiple in {FLOOR: 1.0, BATCHES: batches, SINGLES: singles, FAN_OUT: 5.0}.items():
        spent = 23.0 * (1.0 if name == FLOOR else cpu)
        sides[name] = Side(name, [FLOOR_RATE * multiple], {"worker": [spent], "sink": [99.0]})
    return Rates(database, mode, sides)


def reached(figures: Figures) -> dict[str, bool | None]:
    return {aim.name: aim.reached for aim in aims(figures)}


@pytest.mark.parametrize(
    ("found", "batches", "singles", "cpu"),
    [
        (rates(batches=14, singles=9, cpu=0.11), True, True, True),
        (rates(batches=13.9), False, True, True),
        (rates(singles=8.9), True, False, True),
        (rates(cpu=0.12), True, True, False),  # 2.76 ms where the floor takes 23
        (rates("postgresql", batches=12, singles=8, cpu=0.13), True, True, True),
        (rates("postgresql", batches=11.9), False, True, True),
        (rates("postgresql", singles=7.9), True, False, True),
        (rates("postgresql", cpu=0.14), True, True, False),
    ],
)
def test_rates_are_compared_with_the_floor(
    found: Rates, batches: bool, singles: bool, cpu: bool
) -> None:
    assert reached(Figures(rates=[found])) == {
        f"{found.database}, auto: batch emits": batches,
        f"{found.database}, auto: single emits": singles,
        f"{found.database}, auto: CPU, single emits": cpu,
    }


@pytest.mark.parametrize(
    ("database", "batches", "expected"),
    [("sqlite", 0.9, True), ("sqlite", 0.89, False), ("postgresql", 0.85, True)],
)
def test_workflow_mode_has_its_own_aims(database: str, batches: float, expected: bool) -> None:
    found = reached(Figures(rates=[rates(database, "workflow", batches=batches)]))
    assert found == {f"{database}, workflow: batch emits": expected}


def test_aims_at_a_fixed_rate_are_scaled_to_a_floor_of_95() -> None:
    accept = Quantiles(1_000, 1.0, 1.0, 1.0, 1.0)
    arrive = Quantiles(1_000, 29.0, 55.0, 57.0, 500.0)
    cpu = {"worker": 10.0, "api": 6.1, "sink": 99.0}
    # 30, 54, 58 and 16 ms
    latency = Latency("sqlite", "auto", 50.0, None, 47.5, accept, arrive, cpu, 0.0)
    found = [latency, replace(latency, rate=120.0, of_capacity=0.3)]  # the other rate has no aim
    assert reached(Figures(latency=found)) == {
        "sqlite, auto: 50/s, p50": True,
        "sqlite, auto: 50/s, p95": False,
        "sqlite, auto: 50/s, p99": True,
        "sqlite, auto: 50/s, CPU of a delivery": False,
    }


def test_other_parts_have_fixed_aims() -> None:
    some = Quantiles(1_000, 10.0, 20.0, 50.0, 60.0)
    found = Figures(
        burst=[Burst("sqlite", "auto", 200.0, 60.0, 68.0, some, some, 3, 1.1)],
        fairness=[Fairness("sqlite", "auto", 12_000, [0.9, 5.0], 250, 5_000, 12_000, 1, 2, 3)],
        black_hole=[BlackHole("sqlite", "auto", 130.0, some, some, [1.0, 1.3, 9.0], 99)],
        memory=[Memory("sqlite", "auto", "PSS", 50_000, {}, {"worker": 200, "api": 201}, 460)],
    )
    assert reached(found) == {
        "sqlite, auto: 200/s for 60 s, oldest at the end": False,
        "sqlite, auto: 200/s for 60 s, accept p99": True,
        "sqlite, auto: an event behind 12,000 of another tenant": True,
        "sqlite, auto: new endpoints' first, behind 12,000 of another": None,
        "sqlite, auto: healthy p99 beside a black hole": True,
        "sqlite, auto: PSS after 50,000 deliveries": False,
    }


@pytest.mark.parametrize(
    ("only", "modes", "parts"),
    [
        ("", [*MODES], [*PARTS]),
        ("memory,rates", [*MODES], ["rates", "memory"]),
        ("batch", ["batch"], ["rates", "latency"]),
        ("batch, latency", ["batch"], ["latency"]),
    ],
)
def test_only_selects_parts_and_modes(only: str, modes: list[str], parts: list[str]) -> None:
    assert chosen(only) == (modes, parts)


def test_only_rejects_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"^speed: choose from rates, latency"):
        chosen("rates,speed")
