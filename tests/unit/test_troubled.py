"""Endpoints that were slow or failing lately."""

from __future__ import annotations

import pytest

from hookfast import troubled
from hookfast.troubled import Troubled


def test_an_endpoint_is_troubled_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(troubled.time, "monotonic", lambda: now)
    known = Troubled()
    known.note("ep_1")
    now += 29
    assert "ep_1" in known
    assert "ep_2" not in known
    now += 2
    assert "ep_1" not in known


def test_what_is_known_is_bounded_and_the_oldest_is_forgotten() -> None:
    known = Troubled()
    for number in range(10_001):
        known.note(f"ep_{number}")
    assert "ep_0" not in known
    assert "ep_1" in known
    assert "ep_10000" in known
