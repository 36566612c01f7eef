"""The text blocks of the event stream (Server-Sent Events: WHATWG HTML, section 9.2). Pure."""

from __future__ import annotations

import base64
import json
from typing import Any

from hookfast.clock import rfc3339
from hookfast.deliveries.headers import JSON
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, Gap
from hookfast.storage.inbox.inbox_entries import RawRequest


def opening(cursor: Cursor) -> bytes:
    """Return the first block: the client gets the headers and its position at once, and is told to
    reconnect after a second."""
    return f"retry: 1000\n: connected\nid: {cursor}\n\n".encode("ascii")


def event_block(event: FeedEvent, raw: RawRequest | None = None) -> bytes:
    """Return the block of an event with the body that a receiver gets: its envelope, or with `raw`
    the request that it was received with."""
    body = event.body if raw is None else raw.body or b""
    data = {
        "id": event.id,
        "type": event.type,
        "created_at": rfc3339(event.created_at),
        "tenant_id": event.tenant_id,
        "deliver_at": None if event.deliver_at is None else rfc3339(event.deliver_at),
        "source_id": event.source_id,
        "inbox_id": event.inbox_id,
        "traceparent": event.traceparent,
        "payload": "full" if raw is None else "raw",
        "content_type": JSON if raw is None else raw.content_type,
        "headers": [] if raw is None else [list(pair) for pair in raw.headers],
        **_body(body),
    }
    return _block("event", data, event.cursor)


def gap_block(gap: Gap) -> bytes:
    """Return the block which says that events between two times may be missing."""
    data = {"from": rfc3339(gap.since), "to": rfc3339(gap.until), "reason": gap.reason}
    return _block("gap", data, gap.cursor)


def heartbeat(cursor: Cursor) -> bytes:
    """Return a heartbeat with the stream's position: an id without data dispatches no event, and
    the client resumes there."""
    return f": heartbeat\nid: {cursor}\n\n".encode("ascii")


def _block(name: str, data: dict[str, Any], cursor: Cursor) -> bytes:
    # one line: JSON in ASCII escapes all line breaks, also those only some clients know (U+2028)
    text = json.dumps(data, separators=(",", ":"))
    return f"id: {cursor}\nevent: {name}\ndata: {text}\n\n".encode("ascii")


def _body(body: bytes) -> dict[str, str]:
    """Return UTF-8 bodies as text and others in base64, so that they stay exact."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
