"""The arithmetic of the footprint, and the guide's table of it."""

from __future__ import annotations

import pytest

from bench.footprint.figures import Key, Measure, Reading, Span, each_retry, rise, total
from bench.footprint.markdown import (
    ALONE,
    EACH_RETRY,
    TOGETHER,
    Column,
    at_rest,
    costs,
    number,
    table,
)
from bench.footprint.phases import FLOOR, TEMPORAL, WORKER
from bench.footprint.stores import BACKGROUND, DATABASE, TEMPORAL_DATABASE, VISIBILITY

COMMITS = Key(DATABASE, Measure.COMMITS)
EVENTS = Key(DATABASE, Measure.DISK, "events")
CPU = Key(DATABASE, Measure.CPU)


def test_a_delivery_costs_what_rose_less_what_rises_at_rest() -> None:
    before = {COMMITS: 100.0, EVENTS: 8_000.0, CPU: 1.0}
    after = {COMMITS: 720.0, EVENTS: 12_000.0, CPU: 1.1}
    resting = Span({COMMITS: 30.0, EVENTS: 500.0, CPU: 0.1}, 10).per_second()
    assert resting == {COMMITS: 3.0, CPU: 0.01}  # disk does not rise at rest

    figures = Span(rise(before, after), 40).per_delivery(100, resting)

    assert figures[COMMITS] == (620 - 40 * 3) / 100
    assert figures[EVENTS] == 4_000 / 100
    assert figures[CPU] == 0.0, "0.1 s at work and 0.4 at rest"


def test_a_table_that_appears_counts_from_zero() -> None:
    assert rise({}, {EVENTS: 8_192.0}) == {EVENTS: 8_192.0}


def test_a_retry_costs_the_difference_shared_by_the_retries() -> None:
    assert each_retry({COMMITS: 16.0, EVENTS: 1.0}, {COMMITS: 6.0, EVENTS: 2.0}, 2) == {
        COMMITS: 5.0,
        EVENTS: 0.0,
    }


def test_a_total_is_of_the_named_parts_and_none_if_nothing_was_measured() -> None:
    figures = {COMMITS: 2.0, Key(VISIBILITY, Measure.COMMITS): 3.0, CPU: 1.0}
    assert total(figures, Measure.COMMITS) == 5.0
    assert total(figures, Measure.COMMITS, VISIBILITY) == 3.0
    assert total(figures, Measure.WAL) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.00"), (0.126, "0.13"), (1.26, "1.3"), (12.6, "13"), (1260, "1,260")],
)
def test_figures_have_two_or_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def measured(multiple: float, *, process: str) -> Reading:
    """Return figures of a cluster, times this."""
    return {
        key: value * multiple
        for key, value in {
            COMMITS: 2.0,
            EVENTS: 1_000.0,
            Key(DATABASE, Measure.DISK, "leases"): 10.0,
            Key(TEMPORAL_DATABASE, Measure.COMMITS): 40.0,
            Key(TEMPORAL_DATABASE, Measure.DISK, "history"): 3_000.0,
            Key(VISIBILITY, Measure.COMMITS): 4.0,
            Key(VISIBILITY, Measure.DISK, "executions_visibility"): 27_000.0,
            Key("Temporal and visibility", Measure.WAL): 50_000.0,
            Key(TEMPORAL, Measure.RUNS): 1.0,
            Key(TEMPORAL, Measure.CPU): 0.010,
            Key(TEMPORAL_DATABASE, Measure.CPU): 0.006,
            Key(BACKGROUND, Measure.CPU): 0.001,
            Key(process, Measure.CPU): 0.003,
        }.items()
    }


def test_the_table_has_a_row_for_what_was_measured_and_relates_cpu_to_the_floor() -> None:
    columns = [
        Column("floor", None, measured(1, process=FLOOR)),
        Column("in hundreds", "workflow", measured(1.5, process=WORKER)),
        Column("in hundreds", "batch", measured(0.1, process=WORKER)),
    ]
    assert list(table(columns)) == [
        "| a delivery | floor | `workflow`, in hundreds | `batch`, in hundreds |",
        "|---|---|---|---|",
        "| Hookfast's database: commits | 2.0 | 3.0 | 0.20 |",
        "| Hookfast's database: KB on disk | 1.0 (events 1.0) | 1.5 (events 1.5) "
        "| 0.10 (events 0.10) |",
        "| Temporal's: commits | 44 | 66 | 4.4 |",
        "| Temporal's: KB on disk | 30 (visibility 27, history 3.0) "
        "| 45 (visibility 40, history 4.5) | 3.0 (visibility 2.7, history 0.30) |",
        "| WAL of Temporal and visibility, KB | 50 | 75 | 5.0 |",
        "| Temporal: workflow runs | 1.0 | 1.5 | 0.10 |",
        "| CPU, ms: worker | 3.0 | 4.5 | 0.30 |",
        "| CPU, ms: Temporal | 10 | 15 | 1.0 |",
        "| CPU, ms: PostgreSQL for Temporal | 6.0 | 9.0 | 0.60 |",
        "| CPU, ms: PostgreSQL, both | 1.0 | 1.5 | 0.10 |",
        "| CPU, ms: sum | 20 | 30 | 2.0 |",
        "| CPU: × floor | 1.0 | 1.5 | 0.10 |",
    ]


def test_what_was_not_measured_in_a_column_is_a_dash() -> None:
    columns = [Column("floor", None, {CPU: 0.01}), Column("alone", "batch", {COMMITS: 1.0})]
    assert "| Hookfast's database: commits | – | 1.0 |" in list(table(columns))


def test_the_guides_costs_are_of_both_modes_on_a_cluster() -> None:
    columns = [
        Column(name, mode, measured(multiple * of_mode, process=WORKER), of)
        for mode, of_mode in (("workflow", 1.0), ("batch", 0.1))
        for name, multiple, of in ((ALONE, 3.0, 100), (TOGETHER, 1.0, 300), (EACH_RETRY, 0.5, 100))
    ]
    floor = Column("floor", None, measured(0.5, process=FLOOR), 400)
    lines = list(costs([floor, *columns]))
    assert "COSTS = {" in lines[0]
    assert '    "worker": (3.0, 1.5, 0.30, 0.15),  # ms of CPU' in lines
    assert '    "temporal_wal": (50, 25, 5.0, 2.5),  # KB' in lines
    # the mean of all loads without retries: 1.5 times 30 KB, and with the floor once
    assert '    "temporal_disk": (30, 15, 4.5, 1.5),  # KB' in lines
    space: dict[str, object] = {}
    exec("\n".join(lines), space)  # noqa: S102 - it is part of the guide's Python
    assert list(costs(columns[:3])) == []
    assert list(costs([Column(one.name, one.mode, {COMMITS: 1.0}) for one in columns])) == []


def test_work_at_rest_is_a_sentence() -> None:
    figures = {COMMITS: 4.0, Key(TEMPORAL_DATABASE, Measure.COMMITS): 80.0, CPU: 0.1}
    assert list(at_rest(figures)) == [
        "At rest, a second: 84 commits (Hookfast 4.0, Temporal 80), 0.00 KB of WAL, 100 ms of CPU."
    ]
