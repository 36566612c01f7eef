"""The headers of a delivery's request (DESIGN, section 8). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hookfast.signature import HashName, Profile, sign
from hookfast.version import VERSION

_FIXED = {"Content-Type": "application/json", "User-Agent": f"Hookfast/{VERSION}"}


def request_headers(
    body: bytes,
    *,
    message_id: str,
    event_type: str,
    attempt: int,
    timestamp: int,
    profiles: Sequence[Profile],
    keys: Sequence[bytes],
    hash_name: HashName,
    custom: Mapping[str, str],
    traceparent: str,
) -> dict[str, str]:
    """Every header the sender sets for `body`; the endpoint's own (`custom`) never override ours.

    `timestamp` is Unix time in seconds; `keys` are the endpoint's live secrets, newest first.
    """
    headers = dict(custom)
    headers.update(_FIXED)
    headers["X-Hook-Id"] = message_id
    headers["X-Hook-Topic"] = event_type
    headers["X-Hook-Attempt"] = str(attempt)
    headers["traceparent"] = traceparent
    for profile in profiles:
        headers.update(
            sign(
                profile,
                keys=keys,
                message_id=message_id,
                timestamp=timestamp,
                body=body,
                hash_name=hash_name,
            )
        )
    return headers
