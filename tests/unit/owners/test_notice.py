"""The stored facts of notices, and the hash of an owner's address."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.owners.notice import Facts, one_per_owner, owner_hash


def test_facts_are_read_from_json() -> None:
    stored = {
        "since": "2026-11-20T12:15:00.000000+01:00",
        "last_error": "500",
        "failures": 5,
        "drained": 0,
        "disable_at": "2026-11-23T11:15:00.000000Z",
        "unknown": [],
    }
    assert Facts.parse(stored) == Facts(
        since=datetime(2026, 11, 20, 11, 15, tzinfo=UTC),
        last_error="500",
        failures=5,
        drained=0,
        disable_at=datetime(2026, 11, 23, 11, 15, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "stored",
    [
        {"since": "yesterday"},
        {"since": "2026-11-20T12:15:00"},
        {"since": 5},
        {"last_error": None},
        {"last_error": "  "},
        {"failures": "5"},
        {"failures": True},
        {"held": 1.5},
    ],
)
def test_invalid_fact_is_left_out(stored: dict[str, Any]) -> None:
    assert Facts.parse(stored) == Facts()


@given(st.emails())
def test_owner_hash_ignores_upper_and_lower_case(email: str) -> None:
    assert owner_hash(email.upper().lower()) == owner_hash(email)
    assert len(owner_hash(email)) == 32


def test_owners_have_different_hashes() -> None:
    assert owner_hash("a@shop.example") != owner_hash("b@shop.example")
    assert owner_hash("A@Shop.example") == owner_hash("a@shop.example")


def test_duplicate_owners_are_kept_once_as_first_written() -> None:
    emails = ["Ann@shop.example", "bob@shop.example", "ann@SHOP.example", "bob@shop.example"]
    assert one_per_owner(emails) == ["Ann@shop.example", "bob@shop.example"]
