"""The lines of `hookfast logs` fit a terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from hookfast.cli.remote.logs.tail import attempt_line
from hookfast.clock import rfc3339, utc_now

ID = "0123456789abcdef" * 2


def row(**members: Any) -> dict[str, Any]:
    return {
        "started_at": rfc3339(utc_now()),
        "duration_ms": 120.4,
        "delivery_id": f"dlv_{ID}",
        "endpoint_id": f"ep_{ID}",
        "event_type": "classroom.submission.created",
        "number": 3,
        "attempt_count": 3,
        "result": "status",
        "status_code": 503,
        "delivery_status": "retrying",
        "delivery_reason": None,
        "next_attempt_at": rfc3339(utc_now() + timedelta(minutes=8, seconds=1)),
    } | members


UNANSWERED = {"result": "timeout", "status_code": None, "duration_ms": 15_003.0}
DEAD = {"delivery_status": "dead", "delivery_reason": "retries_exhausted", "next_attempt_at": None}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, "#3 503 120 ms → in 8 min"),
        ({"number": 2}, "#2 503 120 ms → #3"),
        (UNANSWERED | DEAD, "#3 timeout 15 s → dead"),
        (
            {"result": "unreachable", "status_code": None, "delivery_status": "cancelled"},
            "#3 unreachable → cancelled",
        ),
    ],
)
def test_line_fits_80_columns(members: dict[str, Any], expected: str) -> None:
    line = attempt_line(row(**members), width=80).plain
    assert len(line) <= 80
    assert line[9:].startswith("dlv_…89abcdef classroom.")
    assert line.endswith(f" ep_…89abcdef {expected}")
    whole = attempt_line(row(**members), width=None).plain
    assert f" dlv_{ID} classroom.submission.created ep_{ID} {expected}" in whole


def test_line_of_another_day_has_its_date() -> None:
    began = (utc_now() - timedelta(days=3)).replace(second=30)  # times are rounded to seconds
    line = attempt_line(row(started_at=rfc3339(began)), width=80).plain
    assert line.startswith(f"{began.astimezone():%m-%d %H:%M:}")
    assert len(line) <= 80
    assert "\x1b" not in attempt_line(row(event_type="a\x1b[31m.b.c"), width=80).plain
