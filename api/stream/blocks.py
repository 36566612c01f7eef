"""The blocks of the event stream, as text (Server-Sent Events: WHATWG HTML, section 9.2). Pure."""

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
    """The first block: the client has its headers at once, knows where it is, and comes back after
    a second."""
    return f"retry: 1000\n: connected\nid: {cursor}\n\n".encode("ascii")


def event_block(event: FeedEvent, raw: RawRequest | None = None) -> bytes:
    """An event with the body a receiver gets: its envelope, or what it came in with."""
    body = event.body if raw is None else raw.body
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
    """That events may be missing, and between which times."""
    data = {"from": rfc3339(gap.since), "to": rfc3339(gap.until), "reason": gap.reason}
    return _block("gap", data, gap.cursor)


def heartbeat(cursor: Cursor) -> bytes:
    """That the stream lives, and how far it has come: an id without data dispatches no event, and
    is where the client resumes."""
    return f": heartbeat\nid: {cursor}\n\n".encode("ascii")


def _block(name: str, data: dict[str, Any], cursor: Cursor) -> bytes:
    # one line: JSON escapes line breaks, and in ASCII those that only some clients know (U+2028)
    text = json.dumps(data, separators=(",", ":"))
    return f"id: {cursor}\nevent: {name}\ndata: {text}\n\n".encode("ascii")


def _body(body: bytes) -> dict[str, str]:
    """Text as text; what is no UTF-8 in base64, for it has to come out byte for byte."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
