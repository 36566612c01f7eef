"""Sentences about a job's progress and result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hookfast.cli.remote.jobs import (
    EXIT_CODES,
    format_counts,
    format_rate,
    result_sentence,
    started_sentence,
)
from hookfast.deliveries.job import JobStatus

_NOW = datetime(2026, 11, 20, 12, 0, 20, tzinfo=UTC)
_JOB: dict[str, Any] = {
    "id": "job_1",
    "action": "resend",
    "status": "running",
    "total": 5000,
    "done": 1196,
    "skipped": 3,
    "failed": 1,
    "error": None,
    "started_at": "2026-11-20T12:00:00.000000Z",
    "finished_at": None,
    "eta_seconds": 63.3,
}
_DONE = _JOB | {"status": "done", "finished_at": "2026-11-20T12:00:40.000000Z", "eta_seconds": None}


def test_job_counts_name_skipped_and_failed_deliveries() -> None:
    assert format_counts(_JOB) == "1,200/5,000, 3 skipped, 1 failed"
    assert format_counts(_JOB | {"skipped": 0, "failed": 0}) == "1,196/5,000"


def test_job_rate_is_the_average_of_the_whole_run() -> None:
    assert format_rate(_JOB, now=_NOW) == "60.0/s, 63 s left"  # 1,200 in 20 s
    assert format_rate(_DONE, now=_NOW) == "30.0/s"  # 1,200 in 40 s


def test_job_without_progress_has_no_rate() -> None:
    assert format_rate(_JOB | {"started_at": None}, now=_NOW) == ""
    assert format_rate(_JOB | {"done": 0, "skipped": 0, "failed": 0}, now=_NOW) == ""


def test_job_result_is_one_sentence() -> None:
    assert result_sentence(_DONE) == "job_1 done: 1,200/5,000, 3 skipped, 1 failed (30.0/s)."
    failed = _DONE | {"status": "failed", "error": "The endpoint\x1b is gone."}
    assert result_sentence(failed).endswith("(30.0/s). The endpoint� is gone.")


def test_started_job_says_how_to_watch_it() -> None:
    assert started_sentence(_JOB) == (
        "job_1: resend of 5,000 deliveries. Watch it with `hookfast jobs watch job_1`."
    )


def test_every_status_in_which_a_job_ends_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == {status.value for status in JobStatus if status.finished}
