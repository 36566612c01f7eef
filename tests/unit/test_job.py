"""A job's arithmetic: when it tells the next delivery, and when it is over."""

from __future__ import annotations

import pytest

from hookfast.job import JobProgress, JobStatus, Spacing


def moments(spacing: Spacing, nows: list[float]) -> list[float]:
    """When each delivery is told that comes up at one of these times."""
    return [round(now + spacing.wait(now), 6) for now in nows]


def test_moments_are_evenly_spaced() -> None:
    spacing = Spacing(4, first_at=10, catch_up=0.5)
    assert moments(spacing, [10, 10, 10, 10.6, 10.9]) == [10, 10.25, 10.5, 10.75, 11]


def test_a_small_delay_is_caught_up_with() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    # the second is told 0.5 s late, which two more at once make up for
    assert moments(spacing, [0, 0.75, 0.75, 0.75, 0.75]) == [0, 0.75, 0.75, 0.75, 1]


def test_after_a_long_wait_there_is_no_burst() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    # 99 s late: only half a second of it is made up for
    told = moments(spacing, [0, *[99] * 6])
    assert told == [0, 99, 99, 99, 99.25, 99.5, 99.75]


def test_the_first_moment_may_have_to_be_waited_for() -> None:
    assert Spacing(0.1, first_at=107, catch_up=0.25).wait(100) == 7


@pytest.mark.parametrize("status", list(JobStatus))
def test_a_job_that_is_pending_or_running_goes_on(status: JobStatus) -> None:
    assert status.finished is (status not in ("pending", "running"))


def test_whatever_came_of_it_a_delivery_was_handled() -> None:
    assert JobProgress(total=10, done=4, skipped=2, failed=1).handled == 7
