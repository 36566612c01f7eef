"""Without a collector, the caller's trace is passed on and log lines have its id."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import structlog

from hookfast.logs import add_trace
from hookfast.telemetry import spans, traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
GIVEN = f"00-{TRACE}-b7ad6b7169203331-00"


def test_event_is_stored_with_its_callers_trace() -> None:
    with spans.emission(GIVEN) as emission:
        event = emission.begin("order.invoice.paid")
        event.committed("evt_1", 2)
    assert event.traceparent == GIVEN


def test_receiver_gets_a_new_span_with_the_callers_flags() -> None:
    with spans.request("https://example.com/a?b=c", GIVEN, resend_count=0) as first:
        first.answered("timeout", None, succeeded=False)
    with spans.request("https://example.com/a?b=c", GIVEN, resend_count=1) as second:
        pass
    assert traceparent.parse(first.traceparent) == first.traceparent
    assert first.traceparent != second.traceparent
    assert {one.split("-")[1] for one in (first.traceparent, second.traceparent)} == {TRACE}
    assert first.traceparent.endswith("-00")


def test_log_lines_of_an_attempt_have_the_events_trace_id() -> None:
    assert spans.current() is None
    with spans.attempt(
        GIVEN, event_type="order.invoice.paid", number=1, trigger="first", ids={}
    ) as attempt:
        line = add_trace(None, "info", {"event": "Something."})
        attempt.ended("success", following="delivered")
    assert line == {"event": "Something.", "trace_id": TRACE, "span_id": "b7ad6b7169203331"}
    assert add_trace(None, "info", {"event": "Later."}) == {"event": "Later."}


@pytest.mark.parametrize("stored", ["00", "", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_invalid_stored_trace_is_ignored(stored: str) -> None:
    with spans.attempt(
        stored, event_type="order.invoice.paid", number=2, trigger="retry", ids={}
    ) as attempt:
        attempt.ended("dns", following=None)
    with spans.start_of_delivery(
        stored, event_type="order.invoice.paid", since=datetime.now(UTC), ids={}
    ):
        assert spans.current() is None


def test_error_passes_through_a_span() -> None:
    with (
        pytest.raises(ValueError, match="ours"),
        spans.attempt(GIVEN, event_type="a.b.c", number=1, trigger="first", ids={}),
    ):
        raise ValueError("ours")
    assert structlog.contextvars.get_contextvars() == {}
