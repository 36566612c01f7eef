"""The sentence at the top of the overview, and its colour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from api.dashboard.pages.overview_summary import Summary, summarize
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.health import Health
from hookfast.storage.figures.endpoint_counts import EndpointCounts

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def summary(
    endpoints: dict[str, int],
    *,
    held: int = 0,
    retrying: int = 0,
    held_for: timedelta | None = None,
    has_worker: bool = True,
    complete: bool = True,
    by_request: int = 0,
) -> Summary:
    waiting = dict.fromkeys(DeliveryStatus, 0)
    waiting |= {DeliveryStatus.HELD: held, DeliveryStatus.RETRYING: retrying}
    by_health = {Health(name): number for name, number in endpoints.items()}
    return summarize(
        EndpointCounts(by_health=by_health, by_request=by_request, complete=complete),
        waiting,
        held_since=None if held_for is None else NOW - held_for,
        has_worker=has_worker,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("endpoints", "waiting", "level", "text"),
    [
        ({}, {}, "good", None),
        ({"healthy": 1}, {}, "good", "The endpoint is healthy."),
        ({"healthy": 30}, {}, "good", "All 30 endpoints are healthy."),
        (
            {"healthy": 30},
            {"retrying": 1},
            "good",
            "All 30 endpoints are healthy; 1 delivery is being retried.",
        ),
        # 5 + 2 of 30 are down
        (
            {"healthy": 20, "failing": 3, "circuit_open": 5, "disabled": 2},
            {"held": 1_240, "retrying": 86},
            "bad",
            "7 of 30 endpoints are down, 3 are failing; 1,240 deliveries are held, "
            "86 are being retried.",
        ),
        ({"healthy": 9, "circuit_open": 1}, {}, "bad", "1 of 10 endpoints is down."),
        ({"healthy": 10, "circuit_open": 1}, {}, "warn", "1 of 11 endpoints is down."),
        ({"disabled": 1}, {}, "bad", "1 of 1 endpoint is down."),
        (
            {"healthy": 1, "paused": 2, "draining": 1},
            {"held": 2},
            "warn",
            "2 of 4 endpoints are paused, 1 is draining; 2 deliveries are held.",
        ),
        (
            {"healthy": 1},
            {"held": 123_456},
            "warn",
            "The endpoint is healthy; 123,456 deliveries are held.",
        ),
    ],
)
def test_summary_says_what_is_wrong_in_words_and_colour(
    endpoints: dict[str, int], waiting: dict[str, int], level: str, text: str | None
) -> None:
    found = summary(endpoints, **waiting)
    assert (found.level, found.text) == (level, text)


def test_endpoint_that_a_person_disabled_is_neither_down_nor_unhealthy() -> None:
    for by_health, by_request, expected in (
        (
            {"healthy": 2, "disabled": 1},
            1,
            ("good", "2 of 3 endpoints are healthy, 1 is disabled."),
        ),
        ({"healthy": 2, "disabled": 2}, 1, ("bad", "1 of 4 endpoints is down, 1 is disabled.")),
        ({"failing": 1, "disabled": 1}, 1, ("warn", "1 of 2 endpoints is failing, 1 is disabled.")),
        ({"disabled": 1}, 1, ("good", "1 of 1 endpoint is disabled.")),
    ):
        found = summary(by_health, by_request=by_request)
        assert (found.level, found.text) == expected


def test_deliveries_held_for_more_than_an_hour_are_red() -> None:
    assert summary({"healthy": 99}).held_level == "good"
    for held_for, level in ((timedelta(hours=1), "warn"), (timedelta(minutes=61), "bad")):
        found = summary({"healthy": 99}, held=1, held_for=held_for)
        assert (found.held_level, found.level, found.endpoints_level) == (level, level, "good")


def test_summary_is_not_green_without_a_worker() -> None:
    assert summary({"healthy": 2}, has_worker=False).level == "warn"


def test_summary_of_more_endpoints_than_are_counted_says_so() -> None:
    found = summary({"healthy": 9_000, "circuit_open": 1_000}, complete=False)
    assert (found.level, found.text) == ("bad", "1,000 of more than 10,000 endpoints are down.")
