"""Rows of events, deliveries and attempts: what each needs, and the columns that a test names."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hookfast.ids import new_id

Row = dict[str, Any]


def event_row(at: datetime, **columns: Any) -> Row:
    """Return the row of an event of `tnt_1` that was emitted at this time."""
    return {
        "id": new_id("evt", at),
        "type": "order.invoice.paid",
        "tenant_id": "tnt_1",
        "body": b"{}",
        "traceparent": "00",
        "deliveries": 0,
        "created_at": at,
    } | columns


def delivery_row(at: datetime, **columns: Any) -> Row:
    """Return the row of a delivery that was created at this time, delivered unless `status` says
    otherwise."""
    return {
        "id": new_id("dlv", at),
        "event_id": "evt_1",
        "subscription_id": "sub_1",
        "endpoint_id": "ep_1",
        "tenant_id": "tnt_1",
        "event_type": "order.invoice.paid",
        "payload": "full",
        "status": "delivered",
        "attempts": 1,
        "retries": 0,
        "created_at": at,
        "updated_at": at,
    } | columns


def attempt_row(at: datetime, delivery_id: str, endpoint_id: str = "ep_1", **columns: Any) -> Row:
    """Return the row of a delivery's first attempt, which began at this time."""
    return {
        "id": new_id("att", at),
        "delivery_id": delivery_id,
        "endpoint_id": endpoint_id,
        "number": 1,
        "trigger": "first",
        "started_at": at,
        "duration_ms": 5.0,
        "result": "status",
    } | columns
