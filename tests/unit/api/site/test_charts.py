"""The charts' geometry."""

from __future__ import annotations

import pytest

from api.site import charts
from api.site.charts import HEIGHT, WIDTH


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


@pytest.mark.parametrize(
    ("value", "top"),
    [(0.04, 0.05), (50, 50), (51, 150), (151, 300), (3_000, 3_000), (7_200, 9_000), (1e8, 1e8)],
)
def test_levels_of_a_scale_of_seconds_are_round_times(value: float, top: float) -> None:
    assert charts.seconds_ceiling(value) == pytest.approx(top)


def test_bars_stand_on_each_other_and_fill_the_scale() -> None:
    chart = charts.stacked_bars(
        [[("good", 6), ("bad", 4)], [], [("good", 0), ("bad", 5)]],
        tooltips=["ten", "none", "five"],
        labels=["a", "", "c"],
    )
    full, empty, half = chart.bars
    good, bad = full.parts
    assert good.y + good.height == pytest.approx(HEIGHT)
    assert bad.y + bad.height == pytest.approx(good.y, abs=0.01)
    assert bad.y == pytest.approx(0)
    assert empty.parts == ()
    [five] = half.parts  # what is nothing is not drawn
    assert five.height == pytest.approx(HEIGHT / 2)
    # labels are in the middle of their steps, in percent of the width
    assert [(label.label, label.at) for label in chart.labels] == [("a", 16.7), ("c", 83.3)]
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + 0.1 for bar in chart.bars)


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
    first, alone = line.segments
    assert len(first.points.split()) == 2
    assert not first.is_dot
    assert alone.is_dot  # a value between two that are missing can be seen
    assert len(set(alone.points.split())) == 1
    for point in (first.points + " " + alone.points).split():
        x, y = (float(number) for number in point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_no_data_is_an_empty_chart_and_no_error() -> None:
    chart = charts.lines([("p50", [])], tooltips=[], labels=[], unit=str)
    assert chart.bars == ()
    assert chart.lines[0].segments == ()


def test_bars_open_the_lists_of_their_time_and_failed_parts_a_narrower_one() -> None:
    chart = charts.stacked_bars(
        [[("good", 6), ("bad", 4)], []],
        tooltips=["ten", "none"],
        labels=["", ""],
        links=["/list?a", "/list?b"],
        part_links={"bad": ["/list?a&failed", "/list?b&failed"]},
    )
    full, empty = chart.bars
    assert (full.link, empty.link) == ("/list?a", "/list?b")
    assert [part.link for part in full.parts] == [None, "/list?a&failed"]
    assert (full.empty, empty.empty) == (False, True)
    line = charts.lines(
        [("p50", [1, None])], tooltips=["", ""], labels=["", ""], unit=str, links=["/a", "/b"]
    )
    # of a step without a value, a line shows nothing to open
    assert [(bar.link, bar.empty) for bar in line.bars] == [("/a", False)]


def test_low_chart_has_only_its_top_as_a_level() -> None:
    chart = charts.stacked_bars([[("good", 7)]], tooltips=["seven"], labels=[""], is_low=True)
    assert chart.is_low
    assert [(level.at, level.label) for level in chart.levels] == [(HEIGHT, "0"), (0, "10")]
    [part] = chart.bars[0].parts
    assert part.y + part.height == pytest.approx(HEIGHT)
    assert part.height == pytest.approx(HEIGHT * 0.7)
