"""What `deliveries show` says of a delivery and of an answer, in sentences."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookfast.cli.remote import times
from hookfast.cli.remote.delivery_summary import answer_lines, next_step
from hookfast.cli.remote.times import format_time
from hookfast.deliveries.answer import status_text

_AT = "2026-11-25T10:00:00.000000Z"
_NOW = datetime(2026, 11, 27, 2, tzinfo=UTC)
_WHEN = format_time(_AT, now=_NOW)


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distances of times from now stay the same."""
    monkeypatch.setattr(times, "utc_now", lambda: _NOW)


def _attempt(**members: Any) -> dict[str, Any]:
    answer = {"status_code": 503, "result": "status", "duration_ms": 12.4}
    kept = {"response_headers": [["Content-type", "text/html"]], "response_excerpt": "down"}
    return {"number": 2, **answer, **kept, **members}


def _delivery(status: str, **members: Any) -> dict[str, Any]:
    times = dict.fromkeys(("next_attempt_at", "finished_at", "held_since", "next_check_at"))
    return {
        "id": "dlv_1",
        "endpoint_id": "ep_1",
        "status": status,
        "reason": None,
        "attempt_count": 2,
        "attempts": [_attempt()],
        "place": None,
        "waits_behind": None,
        "waiting_behind": 0,
        **times,
        **members,
    }


@pytest.mark.parametrize(
    ("delivery", "lines"),
    [
        (
            _delivery("dead", reason="retries_exhausted"),
            [
                "Dead letter: all retries are used up, after 2 attempts.",
                "Last attempt: 503 Service Unavailable in 12 ms.",
                "Send it again: hookfast deliveries resend dlv_1",
            ],
        ),
        (
            _delivery(
                "held",
                reason="circuit_draining",
                attempt_count=0,
                attempts=[],
                held_since=_AT,
                next_check_at=_AT,
            ),
            [
                "Held: the endpoint's circuit is draining, before its first attempt.",
                "Those on hold are sent at a rising rate, oldest first, and its turn comes by "
                f"itself. It has waited since {_WHEN}. Its next check is at {_WHEN}, if nothing "
                "releases it before.",
                "See why: hookfast endpoints health ep_1",
            ],
        ),
        (
            _delivery("gone", reason="gone", attempts=[_attempt(status_code=410)]),
            [
                "Gone: the receiver answered 410 Gone, after 2 attempts.",
                "Last attempt: 410 Gone in 12 ms.",
                "Send it again: hookfast deliveries resend dlv_1",
            ],
        ),
        (
            _delivery("paused", attempts=[]),
            [
                "Paused by a person, after 2 attempts.",
                "Nothing is sent until it is resumed.",
                "Go on: hookfast deliveries resume dlv_1",
            ],
        ),
        (
            _delivery("retrying", attempts=[_attempt(status_code=None, result="timeout")]),
            [
                "Failing, after 2 attempts; the next attempt is due now.",
                "Last attempt: timeout in 12 ms.",
            ],
        ),
        (
            _delivery("pending", reason="endpoint_limit", attempt_count=0, attempts=[]),
            [
                "Waiting for its first attempt: the endpoint's limits gave it a later turn; the "
                "first attempt is due now.",
                "It is attempted when its turn comes.",
            ],
        ),
        (
            _delivery("pending", place="queued", waits_behind="dlv_0", attempts=[]),
            [
                "Waiting for its turn behind another delivery with its ordering key: dlv_0.",
                "It is sent when its turn comes.",
            ],
        ),
        (
            _delivery("dead", place="head", waiting_behind=1, attempts=[]),
            [
                "Dead letter, after 2 attempts.",
                "It holds up 1 delivery behind it until it is resent or cancelled.",
                "Send it again: hookfast deliveries resend dlv_1",
            ],
        ),
        (
            _delivery("dead", place="head", waiting_behind=3, attempts=[]),
            [
                "Dead letter, after 2 attempts.",
                "It holds up 3 deliveries behind it until it is resent or cancelled.",
                "Send it again: hookfast deliveries resend dlv_1",
            ],
        ),
    ],
)
def test_the_first_lines_say_why_and_what_comes_next(
    delivery: dict[str, Any], lines: list[str]
) -> None:
    assert next_step(delivery) == lines


def test_nothing_is_said_of_a_status_that_only_a_newer_service_knows() -> None:
    assert next_step(_delivery("parked")) == []


def test_a_delivered_one_says_when_and_with_which_answer() -> None:
    attempts = [_attempt(status_code=200, result="success")]
    [line] = next_step(_delivery("delivered", finished_at=_AT, attempts=attempts))
    assert line.startswith("Delivered 2026-11-25 10:00:00Z (")
    assert line.endswith("), after 2 attempts: 200 OK in 12 ms.")


def test_the_next_attempt_is_given_as_a_time() -> None:
    first = next_step(_delivery("retrying", next_attempt_at=_AT))[0]
    assert "the next attempt is due 2026-11-25 10:00:00Z (" in first


def test_an_answer_has_its_status_its_type_and_the_start_of_its_body() -> None:
    long = "\n".join(f"line {number}\x1b[2J" for number in range(40))
    heading, text, is_cut = answer_lines(_attempt(response_excerpt=long), whole=False)
    assert heading == "Answer to attempt 2: 503 Service Unavailable in 12 ms, text/html"
    assert text.splitlines()[0] == "line 0�[2J"
    assert len(text.splitlines()) == 12
    assert is_cut
    _, text, is_cut = answer_lines(_attempt(response_excerpt=long), whole=True)
    assert (len(text.splitlines()), is_cut) == (40, False)
    _, text, is_cut = answer_lines(_attempt(response_excerpt="x" * 2048), whole=False)
    assert (len(text), is_cut) == (800, True)


def test_no_answer_and_an_empty_one_have_no_body() -> None:
    assert answer_lines(_attempt(status_code=None), whole=False) == ("", "", False)
    heading, text, _ = answer_lines(
        _attempt(response_excerpt=" \n", response_headers=None), whole=False
    )
    assert heading.endswith("in 12 ms, without a body")
    assert text == ""


def test_a_status_that_nobody_registered_is_only_its_number() -> None:
    assert status_text(299) == "299"
