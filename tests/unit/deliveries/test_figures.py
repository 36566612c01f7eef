"""Figures: what a change counts, and how exact percentiles of buckets are."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.deliveries.figures import (
    BASE,
    Key,
    Numbers,
    Owner,
    State,
    Tally,
    answer_of,
    bucket_of,
    minute_of,
    minute_of_id,
    percentile,
    result_of,
    time_of_minute,
)
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import new_id

AT = datetime(2026, 11, 27, 12, 34, 56, tzinfo=UTC)
MINUTE = minute_of(AT)
OWNER = Owner("tnt_1", "ep_1", "order.invoice.paid")
PENDING = State(DeliveryStatus.PENDING)


def figures(tally: Tally) -> dict[str, int]:
    return {key.kind: number for key, number in tally.numbers() if not key.gauge}


def gauges(tally: Tally) -> dict[str, int]:
    return {key.kind: number for key, number in tally.numbers() if key.gauge}


def test_a_new_delivery_waits() -> None:
    tally = Tally()
    tally.delivery(OWNER, MINUTE, None, PENDING)
    assert figures(tally) == {"delivery:pending": 1}
    assert gauges(tally) == {"pending": 1}


def test_a_change_takes_from_the_old_status_and_adds_to_the_new() -> None:
    tally = Tally()
    tally.delivery(OWNER, MINUTE, PENDING, State(DeliveryStatus.HELD, "circuit_open"))
    assert figures(tally) == {"delivery:pending": -1, "delivery:held": 1}
    assert gauges(tally) == {"pending": -1, "held": 1}


def test_a_change_that_keeps_the_status_counts_nothing() -> None:
    tally = Tally()
    held = State(DeliveryStatus.HELD, "circuit_open")
    tally.delivery(OWNER, MINUTE, held, State(DeliveryStatus.HELD, "circuit_half_open"))
    assert not list(tally.numbers())


def test_a_queued_delivery_is_pending_too() -> None:
    tally = Tally()
    tally.delivery(OWNER, MINUTE, None, PENDING._replace(queued=True))
    assert gauges(tally) == {"pending": 1, "queued": 1}
    tally.delivery(OWNER, MINUTE, PENDING._replace(queued=True), PENDING)
    assert gauges(tally) == {"pending": 1}


def test_a_dead_letter_is_kept_by_type_reason_and_hour() -> None:
    tally = Tally()
    dead = State(DeliveryStatus.DEAD, "retries_exhausted", AT)
    tally.delivery(OWNER, MINUTE, PENDING, dead)
    kept = Key(True, MINUTE - 34, *OWNER, "dead:retries_exhausted", -1)
    assert (kept, 1) in list(tally.numbers())
    # deleting its row changes the gauge, and not what has happened
    deleted = Tally()
    deleted.delivery(OWNER, MINUTE, dead, None)
    assert list(deleted.numbers()) == [(kept, -1)]


def test_numbers_are_what_was_counted() -> None:
    tally = Tally()
    tally.delivery(OWNER, MINUTE, None, PENDING)
    tally.attempt(OWNER, AT, Result.STATUS, 503, 20.0, first=True)
    tally.attempt(OWNER, AT, Result.TIMEOUT, None, 5_000.0, first=False)
    tally.attempt(OWNER, AT, Result.SUCCESS, 200, 20.0, first=False)
    delivered = State(DeliveryStatus.DELIVERED, None, AT)
    tally.delivery(OWNER, MINUTE, PENDING, delivered)
    tally.ended(OWNER, delivered, took=timedelta(seconds=1))
    numbers = Numbers()
    for key, number in tally.numbers():
        if not key.gauge:
            assert key.at == MINUTE
            numbers.add(key.kind, key.bucket, number)
    assert (numbers.accepted, numbers.open) == (1, 0)
    assert numbers.ended_as(DeliveryStatus.DELIVERED) == 1
    assert (numbers.attempted, numbers.succeeded) == (3, 1)
    assert numbers.by_answer() == {"5xx": 1, "timeout": 1, "success": 1}
    # a timeout is no answer, so it says nothing about how fast the endpoint answers
    assert numbers.response_ms == {bucket_of(20.0): 2}
    assert numbers.delivery_ms == {bucket_of(1_000.0): 1}
    twice = Numbers()
    twice.update(numbers)
    twice.update(numbers)
    assert (twice.accepted, twice.attempted, twice.response_ms.total()) == (2, 6, 4)


@pytest.mark.parametrize("result", Result)
def test_an_answer_has_its_result(result: Result) -> None:
    code = 404 if result is Result.STATUS else None
    assert result_of(answer_of(result, code)) is result


def test_the_minute_of_an_id_is_that_of_its_creation() -> None:
    assert minute_of_id(new_id("dlv", AT)) == MINUTE
    assert time_of_minute(MINUTE) == AT.replace(second=0)


@given(st.floats(min_value=0, max_value=1e9, allow_nan=False))
def test_a_duration_is_within_its_bucket(milliseconds: float) -> None:
    bucket = bucket_of(milliseconds)
    assert milliseconds <= BASE**bucket * (1 + 1e-8)
    assert bucket == 0 or milliseconds > BASE ** (bucket - 1) * (1 - 1e-8)


@given(
    st.lists(st.floats(min_value=1, max_value=1e9), min_size=1),
    st.integers(min_value=1, max_value=100),
)
def test_a_percentile_is_at_most_12_percent_off(durations: list[float], share: int) -> None:
    exact = sorted(durations)[math.ceil(len(durations) * share / 100) - 1]
    found = percentile(Counter(bucket_of(one) for one in durations), share)
    assert found is not None
    assert abs(math.log(found / exact)) <= math.log(BASE) / 2 + 1e-8


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile({}, 50) is None
