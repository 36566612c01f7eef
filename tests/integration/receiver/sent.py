"""Create requests exactly as Hookfast sends them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from hookfast.deliveries.headers import request_headers
from hookfast.signing.signature import HashName, Profile, generate_secret, secret_key

SECRET = generate_secret()
OLD_SECRET = generate_secret()


def body(event_type: str = "order.invoice.paid", amount: int = 7) -> bytes:
    """Return the body of an event."""
    data = {"invoice_id": "in_4711", "amount": amount}
    return json.dumps({"id": "evt_1", "type": event_type, "data": data}).encode()


def headers(
    sent: bytes,
    *,
    message_id: str = "dlv_1",
    attempt: int = 1,
    secrets: Sequence[str] = (SECRET, OLD_SECRET),
    seconds_ago: int = 0,
    profiles: Sequence[Profile] = (Profile.HOOK, Profile.STANDARD),
) -> dict[str, str]:
    """Return the headers with which Hookfast sends this body."""
    return request_headers(
        sent,
        message_id=message_id,
        event_type="order.invoice.paid",
        attempt=attempt,
        timestamp=int(time.time()) - seconds_ago,
        profiles=profiles,
        keys=[secret_key(secret) for secret in secrets],
        hash_name=HashName.SHA256,
        custom={},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
