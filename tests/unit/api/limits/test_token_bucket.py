"""Token buckets: when tokens are granted, and the bound of their memory."""

from __future__ import annotations

import pytest

from api.limits.token_bucket import Take, TokenBuckets


class Watch:
    """A clock that the test moves, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_burst_is_granted_and_then_the_rate(watch: Watch) -> None:
    buckets = TokenBuckets(per_second=2, burst=3, clock=watch)
    assert [buckets.take("a").granted for _ in range(4)] == [True, True, True, False]
    assert buckets.is_empty("a")
    watch.now += 0.5  # one token at two a second
    assert not buckets.is_empty("a")
    assert [buckets.take("a").granted for _ in range(2)] == [True, False]
    watch.now += 3600  # no more than the burst, even after a long pause
    assert [buckets.take("a").granted for _ in range(4)] == [True, True, True, False]


def test_each_name_has_its_own_bucket(watch: Watch) -> None:
    buckets = TokenBuckets(per_second=1, burst=1, clock=watch)
    assert buckets.take("a").granted
    assert buckets.take("b").granted
    assert not buckets.take("a").granted


def test_denied_request_takes_no_token_and_says_how_long_to_wait(watch: Watch) -> None:
    buckets = TokenBuckets(per_second=0.1, burst=2, clock=watch)
    assert buckets.take("a") == Take(granted=True, left=1, wait_seconds=0, full_seconds=10)
    assert buckets.take("a") == Take(granted=True, left=0, wait_seconds=10, full_seconds=20)
    for _ in range(100):
        assert buckets.take("a") == Take(granted=False, left=0, wait_seconds=10, full_seconds=20)
    watch.now += buckets.take("a").wait_seconds
    assert buckets.take("a").granted


def test_least_recently_used_bucket_is_forgotten(watch: Watch) -> None:
    buckets = TokenBuckets(per_second=1, burst=1, capacity=100, clock=watch)
    for number in range(10_000):
        buckets.take(f"flood {number}")
        assert not buckets.take("steady").granted or number == 0
    assert len(buckets) == 100
    assert buckets.take("flood 0").granted  # forgotten, so full again
    assert not buckets.take("flood 9999").granted


def test_checking_a_name_creates_no_bucket(watch: Watch) -> None:
    buckets = TokenBuckets(per_second=1, burst=1, clock=watch)
    assert not buckets.is_empty("a")
    assert len(buckets) == 0
