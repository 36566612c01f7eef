"""The report of `make bench`, its JSON and the tables of the guide."""

from __future__ import annotations

import json

import pytest

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
    Posts,
    Quantiles,
    Rates,
    Side,
    Unmeasured,
)
from bench.delivery.markdown import tables
from bench.delivery.report import console, show, show_receivers, summarize

SPENT = {
    "temporal": 12.345,
    "worker": 10.0,
    "worker 2": 1.0,
    "api": 0.5,
    "postgresql": 1.5,
    "sink": 0.25,
    "load generator": 0.1,
}
WIDTH = 80


def rates(database: str = "sqlite", mode: str = "auto", **multiples: float) -> Rates:
    """Return two turns, with a floor of 70/s and 25.345 ms of CPU; by default all are as fast."""
    sides = {}
    for name in (FLOOR, BATCHES, SINGLES, FAN_OUT):
        multiple = multiples.get(name.replace(" ", "_"), 1.0)
        sides[name] = Side(name)
        for _ in range(2):
            cpu = {process: spent / multiple for process, spent in SPENT.items()}
            sides[name].add(1_000, 1_000 / 70 / multiple, cpu)
    return Rates(database, mode, sides)


def quantiles(*, p50: float = 10.0, p95: float = 20.0, p99: float = 30.0) -> Quantiles:
    return Quantiles(1_000, p50, p95, p99, 1_234.5)


def everything() -> Figures:
    """Return the figures of a run that measured each part once."""
    where = ("postgresql", "workflow")
    return Figures(
        machine={"cores": 2},
        rates=[rates()],
        latency=[Latency(*where, 50.0, None, 68.0, quantiles(), quantiles(), {"worker": 1.0}, 0.1)],
        burst=[Burst(*where, 200.0, 60.0, 68.0, quantiles(), quantiles(), 12_000, 123.4)],
        fairness=[Fairness(*where, 12_345, [0.5, 0.7], 250, 5_000, 12_345, 1.0, 2.0, 3.0)],
        black_hole=[BlackHole(*where, 130.0, quantiles(), quantiles(p99=33), [1.1, 1.0], 99)],
        memory=[Memory(*where, "PSS", 50_000, {"worker": 100.0}, {"worker": 440.0}, 450.0)],
        receivers=[
            Posts("HTTP", 95.4, sent=1_440, repeated=0, failed=0),
            Posts("HTTP, bursts, closed idle", 245.0, sent=1_440, repeated=1_048, failed=3),
        ],
        unmeasured=[Unmeasured("sqlite, auto: burst", "AssertionError: [1] of 2 came")],
    )


def test_tables_fit_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", WIDTH)
    figures = everything()
    for part in (
        *figures.rates,
        *figures.latency,
        *figures.burst,
        *figures.fairness,
        *figures.black_hole,
        *figures.memory,
    ):
        show(part)
    show_receivers(figures.receivers)
    summarize(figures)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert printed.count("(70–70)") == 4
    assert printed.count("12.35") + printed.count("12.34") == 4
    assert "+150" in printed
    assert "[1] of 2 came" in printed


@pytest.mark.parametrize(("elsewhere", "warned"), [(0.2, False), (0.9, True)])
def test_report_warns_of_a_busy_machine(
    capsys: pytest.CaptureFixture[str], elsewhere: float, warned: bool
) -> None:
    figures = Figures(rates=[rates()])
    figures.rates[0].sides[SINGLES].elsewhere[1] = elsewhere
    summarize(figures)
    assert ("others kept up to 0.9 cores busy" in capsys.readouterr().out) is warned


def test_figures_can_be_written_as_json() -> None:
    written = json.loads(json.dumps(everything().as_json()))
    assert written["rates"][0]["multiples"] == {BATCHES: 1.0, SINGLES: 1.0, FAN_OUT: 1.0}
    assert written["fairness"][0]["singles"] == [0.5, 0.7]


def test_tables_of_the_guide_follow_from_the_json() -> None:
    lines = list(tables(json.loads(json.dumps(everything().as_json()))))
    assert lines[0] == "The floor: 70 deliveries a second (70 to 70), 25.3 ms of CPU each."
    assert "| SQLite, `auto` | 1.0 | 1.0 | 1.0 | 1.00, 1.00, 1.00 |" in lines
    assert "| PostgreSQL, `workflow` | 50 | 10 / 20 / 30 | 10 / 20 / 30 |" in lines
    assert "| HTTP, bursts, closed idle | 245 | 1,440 | 1,048 | 3 |" in lines
    for table in "\n".join(lines[2:]).split("\n\n"):
        rows = table.splitlines()
        assert {row.count("|") for row in rows} == {rows[1].count("|")}
        assert len(rows) > 2


def test_cpu_adds_processes_of_one_kind_and_excludes_the_benchmark() -> None:
    side = rates().floor
    assert side.cpu_of("worker") == pytest.approx(11.0)
    assert side.cpu_of("load generator") == pytest.approx(0.1)
    assert side.service_cpu == pytest.approx(12.345 + 11.0 + 0.5 + 1.5)


def test_rate_is_relative_to_the_floor_of_its_own_turn() -> None:
    found = rates()
    found.sides[FLOOR] = Side(FLOOR, rates=[50.0, 100.0, 200.0])
    found.sides[BATCHES] = Side(BATCHES, rates=[500.0, 800.0, 2_200.0])
    assert found.multiple(BATCHES) == 10.0  # of 10, 8 and 11


def test_quantiles_are_measured_values() -> None:
    assert Quantiles.of(range(1, 101)) == Quantiles(100, 51, 96, 100, 100)
    assert Quantiles.of([7.0]) == Quantiles(1, 7.0, 7.0, 7.0, 7.0)
