"""The differences that the audit log records, and what it masks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookfast.audit import MASK, MAX_VALUE_BYTES, Facts, differences

AT = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)


def test_unchanged_fields_are_left_out() -> None:
    assert differences({"name": "a", "limit": 5}, {"name": "a", "limit": 5.0}) == {}


def test_changed_fields_have_their_old_and_new_values() -> None:
    found = differences({"name": "a", "expires_at": None}, {"name": "b", "expires_at": AT})
    assert found == {
        "name": {"before": "a", "after": "b"},
        "expires_at": {"before": None, "after": "2026-11-20T11:15:00.000000Z"},
    }


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_created_or_deleted_resources_are_recorded_without_empty_fields(empty: Any) -> None:
    facts = {"name": "a", "active": False, "retries": 0, "description": empty}
    recorded = {"name": "a", "active": False, "retries": 0}
    assert differences({}, facts) == {name: {"after": value} for name, value in recorded.items()}
    assert differences(facts, {}) == {name: {"before": value} for name, value in recorded.items()}


def test_only_the_names_of_headers_are_recorded() -> None:
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


@pytest.mark.parametrize(("url", "recorded"), URLS)
def test_query_of_a_url_is_masked(url: str, recorded: str) -> None:
    assert differences({}, {"url": url}) == {"url": {"after": recorded}}


@pytest.mark.parametrize(("url", "recorded"), URLS)
def test_query_of_a_token_url_is_masked(url: str, recorded: str) -> None:
    shown = {"token_url": url, "client_id": "hookfast"}
    times = {"created_at": "2026-11-20T11:15:00.000000Z", "expires_at": None}
    credential = {"kind": "oauth2", "sealed": "c2VhbGVk", "shown": shown, **times}
    assert differences({}, {"credentials": [credential]})["credentials"]["after"] == [
        {"kind": "oauth2", "shown": {**shown, "token_url": recorded}, **times}
    ]


def test_changed_query_is_a_difference_although_both_are_masked() -> None:
    found = differences({"url": "https://a.test/?t=1"}, {"url": "https://a.test/?t=2"})
    assert found == {"url": {"before": "https://a.test/?***", "after": "https://a.test/?***"}}


def test_only_public_fields_of_a_secret_are_recorded() -> None:
    secret = {
        "sealed": "c2VhbGVk",
        "created_at": "2026-11-20T11:15:00.000000Z",
        "expires_at": None,
        "kind": "ed25519",
        "public": "whpk_x",
        "whatever": "comes later",
    }
    recorded = differences({}, {"secrets": [secret]})["secrets"]["after"]
    assert recorded == [
        {key: secret[key] for key in ("kind", "public", "created_at", "expires_at")}
    ]


@pytest.mark.parametrize(
    "facts", [{"schema": {"enum": ["x" * MAX_VALUE_BYTES]}}, {"schema": "ä" * MAX_VALUE_BYTES}]
)
def test_long_value_is_recorded_as_length_and_hash(facts: Facts) -> None:
    recorded = differences({}, facts)["schema"]["after"]
    assert recorded["bytes"] > MAX_VALUE_BYTES
    assert len(recorded["sha256"]) == 64
    assert differences({}, {"schema": facts["schema"]})["schema"]["after"] == recorded


def test_value_of_the_greatest_length_is_recorded_unchanged() -> None:
    value = "x" * (MAX_VALUE_BYTES - 2)  # and its quotation marks
    assert differences({}, {"note": value}) == {"note": {"after": value}}
