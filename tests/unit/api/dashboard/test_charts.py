"""The charts' geometry."""

from __future__ import annotations

import pytest

from api.dashboard.site import charts
from api.dashboard.site.charts import HEIGHT, WIDTH


@pytest.mark.parametrize(
    ("value", "top"),
    [
        (0, 1),
        (0.003, 0.005),
        (0.2, 0.2),
        (0.21, 0.25),
        (1, 1),
        (7, 10),
        (10, 10),
        (11, 20),
        (130, 200),
        (2_400, 2_500),
        (999_999, 1_000_000),
    ],
)
def test_the_top_of_a_scale_is_the_next_round_number(value: float, top: float) -> None:
    assert charts.ceiling(value) == pytest.approx(top)


def test_bars_stand_on_each_other_and_fill_the_scale() -> None:
    chart = charts.stacked_bars(
        [[("good", 6), ("bad", 4)], [], [("good", 0), ("bad", 5)]],
        tooltips=["ten", "none", "five"],
        labels=["a", "", "c"],
    )
    full, empty, half = chart.bars
    good, bad = full.parts
    assert good.y + good.height == pytest.approx(chart.bottom)
    assert bad.y + bad.height == pytest.approx(good.y, abs=0.01)
    assert bad.y == pytest.approx(chart.top)
    assert empty.parts == ()
    [five] = half.parts  # what is nothing is not drawn
    assert five.height == pytest.approx((chart.bottom - chart.top) / 2)
    assert [label.label for label in chart.labels] == ["a", "c"]
    assert all(chart.left <= bar.x and bar.x + bar.width <= WIDTH for bar in chart.bars)


def test_few_deliveries_are_not_measured_in_fractions() -> None:
    chart = charts.stacked_bars([[("good", 1)]], tooltips=["one"], labels=[""])
    assert [level.label for level in chart.levels] == ["0", "1", "2", "3", "4", "5"]


def test_a_line_is_broken_where_there_is_nothing() -> None:
    chart = charts.lines(
        [("p50", [1, 2, None, 3, None, None])],
        tooltips=[""] * 6,
        labels=[""] * 6,
        unit=str,
    )
    [line] = chart.lines
    first, alone = line.points
    assert len(first.split()) == 2
    assert len(alone.split()) == 2  # a point alone is drawn as a short line
    for point in (first + " " + alone).split():
        x, y = (float(number) for number in point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_no_data_is_an_empty_chart_and_no_error() -> None:
    chart = charts.lines([("p50", [])], tooltips=[], labels=[], unit=str)
    assert chart.bars == ()
    assert chart.lines[0].points == ()
