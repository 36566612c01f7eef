"""Quotas: a tenant's own and the shared ones, the day for which an event counts, and the errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from hookfast.events.operational import SYSTEM_TENANT
from hookfast.quotas import Quotas, daily_quota_exceeded, day_of, next_day, quota_exceeded

TENANT = "tnt_019a0b3c5d6e7f8091a2b3c4d5e6f708"
SHARED = Quotas(endpoints=10, subscriptions=20, events_per_day=1_000)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, SHARED),
        ({}, SHARED),
        ({"endpoints": 500}, Quotas(endpoints=500, subscriptions=20, events_per_day=1_000)),
        ({"endpoints": 0}, Quotas(subscriptions=20, events_per_day=1_000)),
        ({"sources": 3}, Quotas(endpoints=10, subscriptions=20, sources=3, events_per_day=1_000)),
        ({"of_a_newer_version": 1}, SHARED),
    ],
)
def test_own_quotas_replace_the_shared_ones(own: dict[str, int] | None, expected: Quotas) -> None:
    assert SHARED.of_tenant(TENANT, own) == expected


def test_hookfasts_own_tenant_has_no_limits() -> None:
    assert SHARED.of_tenant(SYSTEM_TENANT, {"endpoints": 1}) == Quotas()


@pytest.mark.parametrize(
    ("at", "day", "seconds_left"),
    [
        (datetime(2026, 11, 20, tzinfo=UTC), date(2026, 11, 20), 86_400),
        (datetime(2026, 11, 20, 23, 59, 59, 999_999, tzinfo=UTC), date(2026, 11, 20), 1),
        (datetime(2026, 12, 31, 12, tzinfo=UTC), date(2026, 12, 31), 43_200),
        # 01:00 in a zone two hours ahead is 23:00 UTC of the day before
        (datetime(2026, 11, 21, 1, tzinfo=timezone(timedelta(hours=2))), date(2026, 11, 20), 3_600),
    ],
)
def test_day_is_one_of_utc_and_ends_when_the_error_says(
    at: datetime, day: date, seconds_left: int
) -> None:
    assert day_of(at) == day
    assert day_of(next_day(at)) == day + timedelta(days=1)
    assert daily_quota_exceeded(5, now=at).retry_after == seconds_left


def test_errors_say_which_quota_how_many_and_what_to_do() -> None:
    resource = quota_exceeded("endpoints", used=1_200, limit=1_000)
    assert (resource.code, resource.message) == (
        "quota_exceeded",
        "The tenant's quota of 1,000 endpoints is used up: it has 1,200. Delete some, or ask the "
        "operator to raise the quota.",
    )
    events = daily_quota_exceeded(5_000, now=datetime(2026, 11, 20, 9, tzinfo=UTC))
    assert events.code == "daily_quota_exceeded"
    assert "quota of 5,000 events per day" in events.message
    assert "after 00:00 UTC" in events.message
