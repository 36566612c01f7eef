"""Ids: their form, their order, and time ranges over them."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.clock import utc_now
from hookfast.ids import Prefix, first_id_at, id_pattern, is_id, new_id

AT = datetime(2026, 11, 20, 11, 15, 0, 123_456, tzinfo=UTC)

moments = st.datetimes(
    min_value=datetime(1970, 1, 1),  # hypothesis adds the zone itself
    timezones=st.just(UTC),
)


@pytest.mark.parametrize("prefix", get_args(Prefix))
def test_an_id_is_its_prefix_and_a_uuid7(prefix: Prefix) -> None:
    identifier = new_id(prefix)
    assert is_id(prefix, identifier)
    parsed = uuid.UUID(identifier.removeprefix(f"{prefix}_"))
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122


def test_the_id_starts_with_its_time_in_milliseconds() -> None:
    # RFC 9562, section 5.7: 48 bits of Unix milliseconds, then the version
    identifier = new_id("evt", AT)
    millis = int(AT.timestamp() * 1000)
    assert identifier[4:16] == f"{millis:012x}"
    assert identifier[16] == "7"


def test_without_a_time_an_id_has_the_current_time() -> None:
    before, identifier, after = utc_now(), new_id("dlv"), utc_now()
    assert first_id_at("dlv", before) <= identifier
    assert identifier < first_id_at("dlv", after + timedelta(microseconds=1))


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id("evt", AT) for _ in range(10_000)}) == 10_000


@given(one=moments, other=moments)
def test_ids_sort_by_time(one: datetime, other: datetime) -> None:
    earlier, later = sorted((one, other))
    if earlier < later:
        assert new_id("evt", earlier) < new_id("evt", later)


@given(millis=st.integers(0, 999), micros=st.integers(1, 999))
def test_ids_sort_by_time_within_a_millisecond(millis: int, micros: int) -> None:
    start = AT.replace(microsecond=millis * 1000)
    assert new_id("evt", start) < new_id("evt", start + timedelta(microseconds=micros))


@given(at=moments)
def test_time_is_a_lower_bound_of_ids(at: datetime) -> None:
    first = first_id_at("evt", at)
    assert is_id("evt", first)
    assert first <= new_id("evt", at)
    if at > datetime(1970, 1, 2, tzinfo=UTC):
        assert new_id("evt", at - timedelta(microseconds=1)) < first


def test_time_before_the_epoch_precedes_all_ids() -> None:
    ancient = datetime(1, 1, 1, tzinfo=UTC)
    assert first_id_at("evt", ancient) == first_id_at("evt", datetime(1970, 1, 1, tzinfo=UTC))


def test_naive_time_is_rejected() -> None:
    with pytest.raises(TypeError):
        new_id("evt", AT.replace(tzinfo=None))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "evt_",
        "evt_" + "0" * 31,
        "evt_" + "0" * 33,
        "evt_" + "0" * 32 + "\n",
        "evt_" + "A" * 32,
        "evt_" + "g" * 32,
        "EVT_" + "0" * 32,
        "dlv_" + "0" * 32,
        " evt_" + "0" * 32,
        "0" * 32,
    ],
)
def test_other_text_is_not_an_id(text: str) -> None:
    assert not is_id("evt", text)


def test_the_pattern_is_anchored_for_use_in_a_schema() -> None:
    assert id_pattern("ep") == "^ep_[0-9a-f]{32}$"
    assert re.search(id_pattern("ep"), new_id("ep"))
    assert not re.search(id_pattern("ep"), "x" + new_id("ep"))
