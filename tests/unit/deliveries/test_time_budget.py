"""A request, its record and handing over a failed record fit into the time that Temporal grants."""

from __future__ import annotations

from datetime import timedelta

import pytest
from annotated_types import Ge, Le
from pydantic import ValidationError

from api.forms.endpoint import EndpointForm
from hookfast.deliveries.retry_plan import PRESETS
from hookfast.deliveries.time_budget import (
    BATCH_LEASE,
    FAST_LANE,
    HEARTBEAT_AT,
    LOCAL_STEP,
    LONGEST_REQUEST,
    RECORD_ACTIVITY,
    RECORD_SHARE,
    REGULAR_STEP,
    ROOM,
    SLACK,
    WORKFLOW_TASK,
    is_for_fast_lane,
)
from hookfast.settings.settings import Settings
from hookfast.storage.deliveries.recorder import _PATIENCE_SECONDS

LANES = {FAST_LANE: LOCAL_STEP, LONGEST_REQUEST: REGULAR_STEP}


@pytest.mark.parametrize("request_time", LANES)
def test_request_record_and_handover_fit_into_a_step(request_time: timedelta) -> None:
    # 5 + 2 + 1 = 8 s in the fast lane; 5 + 30 + 2 + 1 = 38 <= 75 s in the regular one
    room = ROOM if request_time == LONGEST_REQUEST else timedelta(0)
    assert room + request_time + RECORD_SHARE + SLACK <= LANES[request_time]


def test_repeated_batch_keeps_its_deliveries_for_long_enough() -> None:
    # 10 + 5 + 2 + 1 = 18 <= 20 s
    assert WORKFLOW_TASK + FAST_LANE + RECORD_SHARE + SLACK <= BATCH_LEASE


def test_local_step_ends_before_its_task_needs_more_time() -> None:
    # 8 <= 0.8 * 10 s
    assert LOCAL_STEP <= HEARTBEAT_AT * WORKFLOW_TASK


def test_fast_lane_timeout_is_bounded_by_its_share() -> None:
    default = Settings.model_fields["fast_lane_timeout"].get_default()
    assert default <= FAST_LANE
    assert Settings(fast_lane_timeout=FAST_LANE).fast_lane_timeout == FAST_LANE
    assert default + RECORD_SHARE + SLACK <= LOCAL_STEP


@pytest.mark.parametrize(
    ("timeout", "last_ms", "expected"),
    [
        (5, None, True),
        (5.1, None, False),
        (5, 999, True),
        (5, 1_000, False),
        (30, 10, False),
    ],
)
def test_only_quick_endpoints_with_a_short_timeout_get_the_fast_lane(
    timeout: float, last_ms: float | None, expected: bool
) -> None:
    assert is_for_fast_lane(timeout, last_ms, longest=FAST_LANE) is expected


@pytest.mark.parametrize("text", ["5.001", "30", "PT6S"])
def test_longer_fast_lane_timeout_is_rejected_with_its_maximum(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HOOKFAST_FAST_LANE_TIMEOUT", text)
    with pytest.raises(
        ValidationError, match=r"(?s)fast_lane_timeout.*less than or equal to 5 seconds"
    ):
        Settings()


def test_database_timeout_is_shorter_than_the_record_activity() -> None:
    # 20 < 30 s: the activity gets the reason, and not only a timeout
    assert timedelta(seconds=_PATIENCE_SECONDS) < RECORD_ACTIVITY


def test_endpoint_timeout_is_at_most_the_longest_request() -> None:
    declared = EndpointForm.model_fields["timeout_seconds"].metadata
    bounds = [each for each in declared if isinstance(each, Ge | Le)]
    assert bounds == [Ge(ge=1), Le(le=LONGEST_REQUEST.total_seconds())]
    assert max(plan.timeout for plan in PRESETS.values()) <= LONGEST_REQUEST.total_seconds()


def test_shutdown_waits_for_the_longest_request_and_its_record() -> None:
    grace = Settings.model_fields["shutdown_grace"].get_default()
    # attempts have seven eighths of it: 35 > 30 + 2 s
    assert grace * 7 / 8 > LONGEST_REQUEST + RECORD_SHARE
