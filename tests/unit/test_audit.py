"""What the audit log says is different, and what it keeps to itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookfast.audit import MASK, MAX_VALUE_BYTES, Facts, differences

AT = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)


def test_what_stays_the_same_is_not_told() -> None:
    assert differences({"name": "a", "limit": 5}, {"name": "a", "limit": 5.0}) == {}


def test_what_changes_is_told_as_it_was_and_as_it_is() -> None:
    found = differences({"name": "a", "expires_at": None}, {"name": "b", "expires_at": AT})
    assert found == {
        "name": {"before": "a", "after": "b"},
        "expires_at": {"before": None, "after": "2026-11-20T11:15:00.000000Z"},
    }


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_what_is_made_or_gone_is_told_without_its_empty_members(empty: Any) -> None:
    facts = {"name": "a", "active": False, "retries": 0, "description": empty}
    told = {"name": "a", "active": False, "retries": 0}
    assert differences({}, facts) == {name: {"after": value} for name, value in told.items()}
    assert differences(facts, {}) == {name: {"before": value} for name, value in told.items()}


def test_of_headers_only_the_names_are_told() -> None:
    before = {"headers": {"X-Same": "1", "X-Gone": "secret-1", "X-Other": "secret-2"}}
    after = {"headers": {"X-Same": "1", "X-New": "secret-3", "X-Other": "secret-4"}}
    assert differences(before, after) == {
        "headers.X-Gone": {"before": MASK},
        "headers.X-New": {"after": MASK},
        "headers.X-Other": {"before": MASK, "after": MASK},
    }


URLS = [
    ("https://a.test/x", "https://a.test/x"),
    ("https://a.test/x?token=1", "https://a.test/x?***"),
    ("https://a.test/x?a=1?b", "https://a.test/x?***"),
]


@pytest.mark.parametrize(("url", "told"), URLS)
def test_of_a_url_everything_but_the_query_is_told(url: str, told: str) -> None:
    assert differences({}, {"url": url}) == {"url": {"after": told}}


def test_another_query_is_a_difference_although_both_are_masked() -> None:
    found = differences({"url": "https://a.test/?t=1"}, {"url": "https://a.test/?t=2"})
    assert found == {"url": {"before": "https://a.test/?***", "after": "https://a.test/?***"}}


def test_of_a_secret_only_what_answers_show_is_told() -> None:
    secret = {
        "sealed": "c2VhbGVk",
        "created_at": "2026-11-20T11:15:00.000000Z",
        "expires_at": None,
        "kind": "ed25519",
        "public": "whpk_x",
        "whatever": "comes later",
    }
    told = differences({}, {"secrets": [secret]})["secrets"]["after"]
    assert told == [{key: secret[key] for key in ("kind", "public", "created_at", "expires_at")}]


@pytest.mark.parametrize(
    "facts", [{"schema": {"enum": ["x" * MAX_VALUE_BYTES]}}, {"schema": "ä" * MAX_VALUE_BYTES}]
)
def test_a_long_value_is_told_by_its_length_and_its_hash(facts: Facts) -> None:
    told = differences({}, facts)["schema"]["after"]
    assert told["bytes"] > MAX_VALUE_BYTES
    assert len(told["sha256"]) == 64
    assert differences({}, {"schema": facts["schema"]})["schema"]["after"] == told


def test_a_value_of_the_greatest_length_is_told_as_it_is() -> None:
    value = "x" * (MAX_VALUE_BYTES - 2)  # and its quotation marks
    assert differences({}, {"note": value}) == {"note": {"after": value}}
