"""The requests of the benchmark of pages, and how their times are judged."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from bench.pages.measuring import Timing
from bench.pages.requests import PAGE_MS, Request, Subject, requests
from hookfast.ids import new_id

_SUBJECT = Subject(
    tenant=new_id("tnt"),
    endpoint=new_id("ep"),
    failing=new_id("ep"),
    event_type="order.invoice.paid",
    delivery=new_id("dlv"),
    event=new_id("evt"),
)
_PAGE = Request("overview", "/dashboard")


@pytest.mark.parametrize(
    ("times", "p50", "p95", "missed"),
    [
        ([10.0], 10, 10, False),
        # of 20, the 10th and the 19th
        ([float(number) for number in range(20, 0, -1)], 10, 19, False),
        ([1.0] * 19 + [PAGE_MS + 1], 1, 1, False),
        ([1.0] * 18 + [PAGE_MS + 1] * 2, 1, PAGE_MS + 1, True),
    ],
)
def test_a_request_misses_its_aim_by_its_95th_percentile(
    times: list[float], p50: float, p95: float, missed: bool
) -> None:
    timing = Timing(_PAGE, times)
    assert (timing.percentile(50), timing.percentile(95)) == (p50, p95)
    assert timing.missed is missed


def test_a_request_that_is_not_answered_misses_its_aim() -> None:
    assert Timing(_PAGE, (), "answered 500").missed


def test_each_request_has_a_name_and_a_path_of_its_own() -> None:
    found = list(requests(_SUBJECT, datetime(2026, 11, 20, 12, 34, tzinfo=UTC)))
    assert len(found) > 60
    assert max(Counter(one.name for one in found).values()) == 1
    assert max(Counter((one.path, one.by_tenant) for one in found).values()) == 1
