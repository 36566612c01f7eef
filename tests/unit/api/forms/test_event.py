"""Bodies that are events, alone and in a batch: what is rejected, and where the error points."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.access.authentication import Principal
from api.forms.event import parse_batch, parse_event
from hookfast.clock import rfc3339
from hookfast.errors import HookfastError, InvalidInput
from hookfast.storage.events.new_events import NewEvent

OPERATOR = Principal(scope="operator", tenant_id=None, key_id="key_1")
NOW = datetime(2026, 11, 20, tzinfo=UTC)
TYPE = "order.invoice.paid"
TENANT = "tnt_" + "0" * 32


def parsed(event: object) -> NewEvent:
    return parse_event(json.dumps(event).encode(), caller=OPERATOR, key=None, now=NOW)


def parsed_in_batch(event: object) -> NewEvent | HookfastError:
    raw = json.dumps({"events": [event]}).encode()
    [result] = parse_batch(raw, caller=OPERATOR, key=None, max_event_bytes=10_000, now=NOW)
    return result


def assert_rejected(event: object, *, code: str, pointer: str) -> None:
    with pytest.raises(InvalidInput) as alone:
        parsed(event)
    in_batch = parsed_in_batch(event)
    assert isinstance(in_batch, InvalidInput)
    for error in (alone.value, in_batch):
        assert (error.code, [one.pointer for one in error.errors]) == (code, [pointer])


@pytest.mark.parametrize(
    ("members", "code", "pointer"),
    [
        # the type
        ({"type": None}, "invalid_input", "/type"),
        ({"type": 7}, "invalid_input", "/type"),
        ({"type": ""}, "invalid_event_type", "/type"),
        ({"type": "a.b.c.d.e.f.g"}, "invalid_event_type", "/type"),
        ({"type": "Order.Invoice.Paid"}, "invalid_event_type", "/type"),
        ({"type": "order.*.paid"}, "invalid_event_type", "/type"),
        ({"type": "order.invoice.paid\n"}, "invalid_event_type", "/type"),
        ({"type": "a.b." + "c" * 130}, "invalid_input", "/type"),
        ({"type": "hookfast.endpoint.disabled"}, "reserved_event_type", "/type"),
        # the tenant
        ({"tenant_id": 7}, "invalid_input", "/tenant_id"),
        ({"tenant_id": "acme"}, "invalid_input", "/tenant_id"),
        ({"tenant_id": TENANT.upper()}, "invalid_input", "/tenant_id"),
        ({"tenant_id": f"{TENANT}\n"}, "invalid_input", "/tenant_id"),
        # when
        ({"deliver_at": "tomorrow"}, "invalid_input", "/deliver_at"),
        ({"deliver_at": 1763637300}, "invalid_input", "/deliver_at"),
        ({"deliver_at": "2026-11-20T11:15:00"}, "invalid_input", "/deliver_at"),
        ({"deliver_at": "2026-02-31T11:15:00Z"}, "invalid_input", "/deliver_at"),
        ({"deliver_at": "0001-01-01T00:00:00+01:00"}, "invalid_input", "/deliver_at"),
        ({"deliver_at": "9999-12-31T23:59:59Z"}, "too_far_ahead", "/deliver_at"),
        # unknown members
        ({"id": "evt_1"}, "invalid_input", "/id"),
        ({"Data": 1}, "invalid_input", "/Data"),
        ({"query": 1}, "invalid_input", "/query"),
        ({"a/b~c": 1}, "invalid_input", "/a~1b~0c"),
    ],
)
def test_error_points_at_the_invalid_member(
    members: dict[str, Any], code: str, pointer: str
) -> None:
    assert_rejected({"type": TYPE, "data": 1} | members, code=code, pointer=pointer)


def test_idempotency_key_is_a_member_only_in_a_batch() -> None:
    event = {"type": TYPE, "data": 1, "idempotency_key": "k"}
    with pytest.raises(InvalidInput) as alone:
        parsed(event)
    assert [one.pointer for one in alone.value.errors] == ["/idempotency_key"]
    in_batch = parsed_in_batch(event)
    assert isinstance(in_batch, NewEvent)
    assert in_batch.idempotency_key == "k"


@pytest.mark.parametrize("missing", ["type", "data"])
def test_error_points_at_the_missing_member(missing: str) -> None:
    event = {"type": TYPE, "data": 1}
    del event[missing]
    assert_rejected(event, code="invalid_input", pointer=f"/{missing}")


def test_deliver_at_is_at_most_thirty_days_ahead() -> None:
    limit = NOW + timedelta(days=30)
    event = {"type": TYPE, "data": 1}
    assert parsed(event | {"deliver_at": rfc3339(limit)}).deliver_at == limit
    over = rfc3339(limit + timedelta(microseconds=1))
    assert_rejected(event | {"deliver_at": over}, code="too_far_ahead", pointer="/deliver_at")
