"""The sentence at the top of a delivery's page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.dashboard.pages.delivery_summary import summary_of
from api.http.workflow_link import WorkflowView
from api.routes.deliveries import AttemptView, DeliveryDetail

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DOWN = {"result": "status", "status_code": 503, "response_excerpt": "<h1>Down\n for  repair</h1>"}
OK = {"result": "success", "status_code": 200, "response_excerpt": "thanks"}
SLOW = {"result": "timeout", "error": "example.com did not answer in time.", "duration_ms": 5000}


def attempt(number: int, **members: Any) -> AttemptView:
    given: dict[str, Any] = {"status_code": None, "error": None, "response_excerpt": None}
    given |= {"duration_ms": 120.4, "started_at": NOW + timedelta(hours=number)} | members
    return AttemptView(
        id="att_1",
        number=number,
        trigger="first",
        url=None,
        request_headers=None,
        response_headers=None,
        **given,
    )


def delivery(status: str, *attempts: dict[str, Any], **members: Any) -> DeliveryDetail:
    made = [attempt(place, **each) for place, each in enumerate(attempts, 1)]
    given: dict[str, Any] = {
        "reason": None,
        "attempt_count": len(made),
        "retry_count": max(0, len(made) - 1),
        "attempts": made,
        **dict.fromkeys(("place", "ordering_key", "waits_behind")),
        "waiting_behind": 0,
        **dict.fromkeys(("held_since", "next_check_at")),
    }
    return DeliveryDetail(
        **dict.fromkeys(("id", "event_id", "subscription_id", "endpoint_id", "tenant_id"), "x"),
        event_type="order.invoice.paid",
        payload="full",
        status=status,
        next_attempt_at=None,
        last_answer=None,
        deliver_at=None,
        created_at=NOW,
        updated_at=NOW,
        finished_at=None,
        workflow=WorkflowView(id="delivery/x", url=None, kept_until=None),
        batch=None,
        **given | members,
    )


@pytest.mark.parametrize(
    ("shown", "text", "excerpt"),
    [
        (
            # the first attempt, then a retry each hour
            delivery("dead", *[DOWN] * 79, reason="retries_exhausted"),
            "Dead letter: all retries are used up; 78 retries over 3 d 6 h; "
            "the last answer was 503 Service Unavailable after 120 ms",
            "<h1>Down for repair</h1>",
        ),
        (
            delivery("dead", {"result": "status", "status_code": 422}, reason="not_retryable"),
            "Dead letter: the retry plan does not retry this answer; "
            "the answer was 422 Unprocessable Entity after 120 ms",
            None,
        ),
        (
            delivery("dead", reason="endpoint_disabled"),
            "Dead letter: the endpoint is disabled; no attempt was made",
            None,
        ),
        (
            delivery("retrying", DOWN, SLOW),
            "Failing; 1 retry over 1 h so far; "
            "the last attempt failed after 5 s: example.com did not answer in time",
            None,
        ),
        (
            delivery("retrying", SLOW),
            "Failing; 1 attempt so far; "
            "the attempt failed after 5 s: example.com did not answer in time",
            None,
        ),
        (
            delivery("held", DOWN, reason="circuit_open"),
            "Held: the endpoint's circuit is open; "
            "the answer was 503 Service Unavailable after 120 ms",
            "<h1>Down for repair</h1>",
        ),
        (delivery("held", reason="endpoint_paused"), "Held: the endpoint is paused", None),
        (
            delivery("delivered", DOWN, OK),
            "Delivered by attempt 2; the last answer was 200 OK after 120 ms",
            None,
        ),
        (
            # a resend that failed does not undo the delivery
            delivery("delivered", OK, {"result": "status", "status_code": 599}),
            "Delivered by attempt 1; the last answer was 599 after 120 ms",
            None,
        ),
        (delivery("pending"), "Waiting for its first attempt", None),
        (
            delivery("pending", place="queued", waits_behind="dlv_1"),
            "Waiting for its turn behind another delivery with its ordering key",
            None,
        ),
        (
            delivery("dead", place="head", waiting_behind=2, reason="endpoint_disabled"),
            "Dead letter: the endpoint is disabled; 2 deliveries wait behind it until it is "
            "resent or cancelled; no attempt was made",
            None,
        ),
        (delivery("cancelled"), "Cancelled by a person; no attempt was made", None),
        (
            delivery("paused", DOWN),
            "Paused by a person; the answer was 503 Service Unavailable after 120 ms",
            "<h1>Down for repair</h1>",
        ),
        (
            # retention has deleted the attempts
            delivery("gone", reason="gone", attempt_count=2),
            "Gone: the receiver answered 410 Gone",
            None,
        ),
    ],
)
def test_summary_says_what_became_of_a_delivery_and_why(
    shown: DeliveryDetail, text: str, excerpt: str | None
) -> None:
    found = summary_of(shown)
    assert (found.text, found.excerpt) == (text, excerpt)


@pytest.mark.parametrize(
    ("shown", "following"),
    [
        (delivery("held", DOWN, reason="circuit_half_open"), "A probe is in progress, or the next"),
        (delivery("held", reason="circuit_draining"), "Those on hold are sent at a rising rate"),
        (delivery("paused", DOWN), "Nothing is sent until it is resumed."),
        (delivery("retrying", place="queued"), "It is sent when its turn comes."),
    ],
)
def test_summary_says_what_happens_next(shown: DeliveryDetail, following: str) -> None:
    assert summary_of(shown).next.startswith(following)


def test_summary_of_a_finished_delivery_promises_nothing() -> None:
    assert summary_of(delivery("dead", DOWN, reason="retries_exhausted")).next == ""


def test_long_answer_is_shortened() -> None:
    found = summary_of(delivery("retrying", DOWN | {"response_excerpt": "x" * 900}))
    assert found.excerpt == "x" * 200 + "…"
