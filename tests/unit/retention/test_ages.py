"""Which rows are deleted when, and which ages cannot be combined."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from hookfast.retention.ages import SWEEPS, cutoff, cutoffs
from hookfast.settings.settings import Settings

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("now", "age", "before"),
    [
        # 21 November 03:00 − 30 days = 22 October 03:00, and that day is kept whole
        (datetime(2026, 11, 21, 3, tzinfo=UTC), 30 * DAY, datetime(2026, 10, 22, tzinfo=UTC)),
        (datetime(2026, 11, 21, tzinfo=UTC), 1 * DAY, datetime(2026, 11, 20, tzinfo=UTC)),
        (datetime(2026, 11, 21, 3, tzinfo=UTC), 36 * DAY / 24, datetime(2026, 11, 19, tzinfo=UTC)),
        # days are UTC's: 01:00 at +02:00 is still the day before
        (
            datetime(2026, 11, 21, 1, tzinfo=timezone(timedelta(hours=2))),
            1 * DAY,
            datetime(2026, 11, 19, tzinfo=UTC),
        ),
        (datetime(2026, 11, 21, tzinfo=UTC), 0 * DAY, None),
    ],
)
def test_whole_days_are_deleted(now: datetime, age: timedelta, before: datetime | None) -> None:
    assert cutoff(now, age) == before


def test_every_sweep_has_a_cutoff() -> None:
    now = datetime(2026, 11, 21, 3, tzinfo=UTC)
    found = cutoffs(now, Settings().ages)
    assert list(found) == list(SWEEPS)
    assert found["inbox_keys"] == now
    assert found["audit"] == datetime(2025, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    "variables",
    [
        {"event_retention": "0"},
        {"event_retention": "7776000", "delivery_retention": "7776000"},
        {name: "0" for name in Settings.model_fields if name.endswith("_retention")},
        {"dead_letter_retention": "0"},  # they keep their events
        {"attempt_retention": "86400"},
        {"audit_retention": "86400"},
        {"figure_retention": "3542400"},
    ],
)
def test_consistent_ages_are_accepted(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"HOOKFAST_{name.upper()}", value)
    assert Settings(_env_file=None).ages


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"event_retention": "604800"},
            "HOOKFAST_DELIVERY_RETENTION (30 days) is longer than HOOKFAST_EVENT_RETENTION (7 "
            "days), but a delivery needs its event to be sent again: shorten the first or lengthen "
            "the second",
        ),
        (
            {"delivery_retention": "0"},
            "HOOKFAST_DELIVERY_RETENTION (for ever) is longer than HOOKFAST_EVENT_RETENTION",
        ),
        (
            {"attempt_retention": "5184000"},
            "HOOKFAST_ATTEMPT_RETENTION (60 days) is longer than HOOKFAST_DELIVERY_RETENTION",
        ),
        (
            {"idempotency_retention": "5184000"},
            "HOOKFAST_IDEMPOTENCY_RETENTION (60 days) is longer than HOOKFAST_EVENT_RETENTION",
        ),
        (
            {"job_retention": "3600"},
            "HOOKFAST_JOB_RETENTION is shorter than a day: set at least 86400 (seconds), or 0",
        ),
        (
            {"figure_retention": "3456000"},
            "HOOKFAST_FIGURE_RETENTION (40 days) is shorter than 41 days, but figures are added up "
            "by day after 40 days: set at least 3542400 (seconds), or 0 to keep for ever",
        ),
    ],
)
def test_inconsistent_ages_are_rejected_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"HOOKFAST_{name.upper()}", value)
    with pytest.raises(ValidationError) as refused:
        Settings(_env_file=None)
    assert said in str(refused.value)
