"""The body of a delivery: the envelope around an event's data. Pure.

The data is the raw JSON text that the platform sent, kept byte for byte. So numbers, member order
and spacing survive, and a signature covers what the platform meant.
"""

from __future__ import annotations

import json
from datetime import datetime

from hookfast.clock import rfc3339


def full_body(
    *, event_id: str, event_type: str, created_at: datetime, tenant_id: str | None, data: str
) -> bytes:
    """Return the body with the event's data: compact JSON in UTF-8 with the members id, type,
    created_at, tenant_id and data. `data` is the text of one valid JSON value, kept unchanged."""
    head = _compact(
        {
            "id": event_id,
            "type": event_type,
            "created_at": rfc3339(created_at),
            "tenant_id": tenant_id,
        }
    )
    return f'{head[:-1]},"data":{data}}}'.encode()


def thin_body(
    *, event_id: str, event_type: str, created_at: datetime, tenant_id: str | None, url: str
) -> bytes:
    """Return the body that only says where to fetch the event: `full_body` with the data
    `{"id": event_id, "url": url}`."""
    return full_body(
        event_id=event_id,
        event_type=event_type,
        created_at=created_at,
        tenant_id=tenant_id,
        data=_compact({"id": event_id, "url": url}),
    )


def _compact(value: dict[str, str | None]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
