"""The body of a delivery, byte for byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.events.envelope import full_body, thin_body

CREATED = datetime(2026, 11, 20, 11, 15, 0, 250, tzinfo=UTC)


def test_full_body_is_compact_and_in_order() -> None:
    body = full_body(
        event_id="evt_1",
        event_type="order.invoice.paid",
        created_at=CREATED,
        tenant_id="tnt_1",
        data='{"amount":12.50}',
    )
    assert body == (
        b'{"id":"evt_1","type":"order.invoice.paid","created_at":"2026-11-20T11:15:00.000250Z",'
        b'"tenant_id":"tnt_1","data":{"amount":12.50}}'
    )


def test_broadcast_has_a_null_tenant() -> None:
    body = full_body(
        event_id="evt_1", event_type="a.b.c", created_at=CREATED, tenant_id=None, data="null"
    )
    assert b'"tenant_id":null,"data":null}' in body


@pytest.mark.parametrize(
    "data",
    [
        '{ "b" : 1.0 ,\n "a" : 1e2 }',  # spacing, order and number forms survive
        '"\\u00e9é\\/"',  # and so do the two ways to write a character
        "123456789012345678901234567890",
        "[]",
    ],
)
def test_data_is_kept_byte_for_byte(data: str) -> None:
    body = full_body(
        event_id="evt_1", event_type="a.b.c", created_at=CREATED, tenant_id=None, data=data
    )
    assert body.endswith(b'"data":' + data.encode() + b"}")


def test_thin_body_has_only_the_events_url() -> None:
    body = thin_body(
        event_id="evt_1",
        event_type="a.b.c",
        created_at=CREATED,
        tenant_id="tnt_1",
        url="https://hooks.example/v1/events/evt_1",
    )
    assert body.endswith(b'"data":{"id":"evt_1","url":"https://hooks.example/v1/events/evt_1"}}')


def test_time_is_converted_to_utc() -> None:
    east = CREATED.astimezone(timezone(timedelta(hours=9)))
    bodies = {
        full_body(event_id="evt_1", event_type="a.b.c", created_at=moment, tenant_id=None, data="1")
        for moment in (CREATED, east)
    }
    assert len(bodies) == 1


@given(
    tenant_id=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    data=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    ),
)
def test_body_is_json_with_the_given_values(tenant_id: str | None, data: object) -> None:
    body = full_body(
        event_id="evt_1",
        event_type="a.b.c",
        created_at=CREATED,
        tenant_id=tenant_id,
        data=json.dumps(data),
    )
    assert json.loads(body) == {
        "id": "evt_1",
        "type": "a.b.c",
        "created_at": "2026-11-20T11:15:00.000250Z",
        "tenant_id": tenant_id,
        "data": data,
    }
