"""A job's arithmetic: when its next turn comes, and when it has ended."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.deliveries.job import JobProgress, JobStatus, Rest, Spacing


def taken(spacing: Spacing, nows: list[float], *, most: int = 100) -> list[int]:
    """Return how many turns are taken at each of these times."""
    return [spacing.take(now, most=most) for now in nows]


def test_turns_are_evenly_spaced() -> None:
    spacing = Spacing(4, first_at=10, catch_up=0.5)
    # at 10, 10.25, 10.5, 10.75 and 11 s
    assert taken(spacing, [9.9, 10, 10.1, 10.25, 10.6, 11]) == [0, 1, 0, 1, 1, 2]


def test_small_delay_is_caught_up() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    # the turn at 0.25 s is taken 0.5 s late, with those at 0.5 and 0.75 s
    assert taken(spacing, [0, 0.75, 0.9, 1]) == [1, 3, 0, 1]


def test_long_wait_is_not_followed_by_a_burst() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    # 99 s late: only half a second of it is made up for, at 98.5, 98.75 and 99 s
    assert taken(spacing, [0, 99, 99, 99.25]) == [1, 3, 0, 1]


def test_first_turn_may_be_in_the_future() -> None:
    spacing = Spacing(0.1, first_at=107, catch_up=0.25)
    assert taken(spacing, [100, 106.9, 107, 116.9, 117]) == [0, 0, 1, 0, 1]


def test_turns_without_room_are_taken_later() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    # three have come by 0.5 s
    assert [spacing.take(0.5, most=most) for most in (0, -1, 2, 2)] == [0, 0, 2, 1]
    # but not what was left for longer than `catch_up`
    assert [spacing.take(now, most=most) for now, most in [(2, 0), (9, 100)]] == [0, 3]


@given(
    steps=st.lists(st.tuples(st.integers(0, 64), st.integers(0, 5)), min_size=1, max_size=50),
)
def test_turns_never_exceed_the_rate_and_the_catch_up(
    steps: list[tuple[int, int]],
) -> None:
    spacing, now, log = Spacing(4, first_at=1, catch_up=0.5), 0.0, []
    for sixteenths, most in steps:
        now += sixteenths / 16
        log.append((now, spacing.take(now, most=most)))
        assert log[-1][1] <= most
    for index, (since, _) in enumerate(log):
        for until, _ in log[index:]:
            number = sum(one for at, one in log if since <= at <= until)
            # one every 0.25 s, and the first of them up to 0.5 s late
            assert number <= (until - since + 0.5) * 4 + 1


def test_no_turn_comes_after_a_stop() -> None:
    spacing = Spacing(4, first_at=0, catch_up=0.5)
    assert spacing.next_at == 0
    assert spacing.take(0, most=1) == 1
    assert spacing.next_at == 0.25
    assert not spacing.stopped
    spacing.stop()
    assert spacing.stopped
    assert taken(spacing, [1, 99]) == [0, 0]


def rests(looks: list[bool], *, until_next: float) -> list[float]:
    rest = Rest(shortest=0.5, longest=3)
    return [rest.after(moved=moved, until_next=until_next) for moved in looks]


@pytest.mark.parametrize("until_next", [0, -1, math.inf])
def test_job_without_progress_checks_less_and_less_often(until_next: float) -> None:
    looks = [True, False, False, False, False, True, True]
    assert rests(looks, until_next=until_next) == [0.5, 1, 2, 3, 3, 0.5, 0.5]


@pytest.mark.parametrize(("until_next", "rest"), [(0.1, 0.5), (1.5, 1.5), (9, 2)])
def test_job_does_not_miss_its_next_turn(until_next: float, rest: float) -> None:
    assert rests([True, False, False], until_next=until_next)[-1] == rest


@pytest.mark.parametrize("status", list(JobStatus))
def test_only_pending_and_running_jobs_continue(status: JobStatus) -> None:
    assert status.finished is (status not in ("pending", "running"))


def test_handled_counts_done_skipped_and_failed() -> None:
    assert JobProgress(total=10, done=4, skipped=2, failed=1).handled == 7
