"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from api.dashboard.site import DASHBOARD
from api.site import formatting
from api.site.form import Form
from hookfast.deliveries.job import JobStatus
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.endpoints.health import Health

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_601, "1 h"),
        (7_500, "2 h 5 min"),
        (263_000, "3 d 1 h"),
        (-5, "0 s"),
        (None, ""),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert formatting.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (5, "5 s ago"), (200, "3 min ago"), (-7_300, "in 2 h"), (90_000, "1 d ago")],
)
def test_a_moment_is_told_by_how_long_ago_it_was(seconds: int, text: str) -> None:
    assert formatting.ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1, "100 %"),
        (0.99996, "99.99 %"),
        (1 - 1e-12, "99.99 %"),
        (0.9995, "99.95 %"),
        (0.57, "57 %"),
        (0.5, "50 %"),
        (0, "0 %"),
        (None, "–"),
    ],
)
def test_one_failure_in_many_is_not_rounded_away(share: float | None, text: str) -> None:
    assert formatting.percent(share) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [(0.2, "< 1 ms"), (12.4, "12 ms"), (1_400, "1.4 s"), (30_000, "30 s"), (None, "–")],
)
def test_a_duration_is_as_fine_as_is_of_interest(millis: float | None, text: str) -> None:
    assert formatting.millis(millis) == text


def test_every_status_has_its_colour() -> None:
    known = {*DeliveryStatus, *Health, *JobStatus, "enabled", Result.SUCCESS}
    assert known <= set(formatting.TONES)
    assert {formatting.tone(result) for result in Result if result is not Result.SUCCESS} == {"bad"}


@pytest.mark.parametrize(
    "path",
    [
        None,
        "",
        "/",
        "/v1/tenants",
        "//evil",
        "/\\evil",
        "https://evil",
        "/dashboardx",
        "/dashboard\n",
    ],
)
def test_path_that_is_not_ours_leads_to_the_first_page(path: str | None) -> None:
    assert DASHBOARD.path(path) == "/dashboard"


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard?window=7d", "/dashboard/jobs"])
def test_path_of_ours_stays_as_it_is(path: str) -> None:
    assert DASHBOARD.path(path) == path


def test_a_forms_fields_are_read_without_the_space_around_them() -> None:
    form = Form([("ids", " 1 "), ("ids", "2"), ("b", " "), ("c", "x\n\n y \n")])
    assert (form["ids"], form.all("ids"), form.text("b"), form.lines("c")) == (
        "2",
        ["1", "2"],
        None,
        ["x", "y"],
    )


@pytest.mark.parametrize(
    ("count", "over", "words"),
    [
        (0, timedelta(hours=1), "none"),
        (162, timedelta(hours=1), "2.7 a minute"),
        (60, timedelta(hours=1), "1 a minute"),
        (59, timedelta(hours=1), "59 an hour"),
        (163, timedelta(days=30), "5.4 a day"),
        (3, timedelta(days=30), "fewer than 1 a day"),
        (50, timedelta(seconds=30), "100 a minute"),
        (4_800_000, timedelta(days=1), "3,333 a minute"),
    ],
)
def test_rate_has_the_first_unit_in_which_there_is_at_least_one(
    count: int, over: timedelta, words: str
) -> None:
    assert formatting.rate(count, over) == words
