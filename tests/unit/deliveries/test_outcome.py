"""Outcomes and delivery statuses."""

from __future__ import annotations

import dataclasses

import pytest

from hookfast.deliveries.evidence import Evidence
from hookfast.deliveries.outcome import DeliveryStatus, Outcome, Result


@pytest.mark.parametrize("result", Result)
def test_only_success_is_success(result: Result) -> None:
    outcome = Outcome(result=result, duration_ms=1.0)
    assert outcome.succeeded is (result is Result.SUCCESS)


@pytest.mark.parametrize(
    ("code", "gone"), [(None, False), (200, False), (404, False), (410, True), (500, False)]
)
def test_only_410_is_gone(code: int | None, gone: bool) -> None:
    assert Outcome(result=Result.STATUS, duration_ms=1.0, status_code=code).gone is gone


def test_508_is_no_success_and_says_nothing_against_the_endpoint() -> None:
    looped = Outcome(result=Result.STATUS, duration_ms=1.0, status_code=508)
    assert (looped.succeeded, looped.looped, looped.healthy) == (False, True, True)
    failed = Outcome(result=Result.STATUS, duration_ms=1.0, status_code=500)
    assert (failed.looped, failed.healthy) == (False, False)
    assert Outcome(result=Result.SUCCESS, duration_ms=1.0, status_code=200).healthy


def test_finished_statuses_end_a_delivery() -> None:
    assert {status.value for status in DeliveryStatus if status.finished} == {
        "delivered",
        "dead",
        "gone",
        "cancelled",
    }


def test_statuses_are_those_of_the_api() -> None:
    assert [status.value for status in DeliveryStatus] == [
        "pending",
        "retrying",
        "held",
        "paused",
        "delivered",
        "dead",
        "gone",
        "cancelled",
    ]


def test_outcome_is_immutable() -> None:
    outcome = Outcome(result=Result.STATUS, duration_ms=1.0, status_code=500)
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.status_code = 200  # type: ignore[misc]


def test_for_history_an_outcome_has_no_url_headers_or_body() -> None:
    facts = {"result": Result.STATUS, "duration_ms": 1.0, "status_code": 500, "error": "500"}
    outcome = Outcome(**facts, response_excerpt="body", evidence=Evidence("https://a.example/key"))
    assert outcome.for_history() == Outcome(**facts)
    assert "a.example" not in repr(outcome)
