"""Endpoints that were slow or failing lately."""

from __future__ import annotations

import pytest

from hookfast.dispatch import unhealthy_endpoints
from hookfast.dispatch.unhealthy_endpoints import UnhealthyEndpoints


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(unhealthy_endpoints.time, "monotonic", clock)
    return clock


def fail(known: UnhealthyEndpoints, endpoint_id: str, times: int) -> None:
    for _ in range(times):
        known.mark_unhealthy(endpoint_id)


def test_repeatedly_failing_endpoint_is_unhealthy_for_a_while(clock: Clock) -> None:
    known = UnhealthyEndpoints()
    fail(known, "ep_1", 2)
    assert "ep_1" not in known
    fail(known, "ep_1", 1)
    clock.now += 29
    assert "ep_1" in known
    assert "ep_2" not in known
    clock.now += 2
    assert "ep_1" not in known
    fail(known, "ep_1", 2)  # earlier failures are forgotten
    assert "ep_1" not in known


def test_one_failure_among_many_is_healthy(clock: Clock) -> None:
    known = UnhealthyEndpoints()
    for _ in range(100):
        fail(known, "ep_1", 1)
        for _ in range(9):
            known.mark_healthy("ep_1")
        assert "ep_1" not in known


def test_recovered_endpoint_is_healthy(clock: Clock) -> None:
    known = UnhealthyEndpoints()
    fail(known, "ep_1", 1_000)
    for _ in range(3):
        known.mark_healthy("ep_1")
        assert "ep_1" in known
    known.mark_healthy("ep_1")
    assert "ep_1" not in known


def test_oldest_scores_are_forgotten_first() -> None:
    known = UnhealthyEndpoints()
    for number in range(10_001):
        fail(known, f"ep_{number}", 3)
    assert "ep_0" not in known
    assert "ep_1" in known
    assert "ep_10000" in known
