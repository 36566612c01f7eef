"""The headers of a delivery's request (DESIGN, section 8). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hookfast.events.hops import HEADER as HOPS_HEADER
from hookfast.signing.keys import RsaSigner
from hookfast.signing.signature import HashName, Profile, merged_headers, new_nonce, sign
from hookfast.version import VERSION

JSON = "application/json"
_USER_AGENT = f"Hookfast/{VERSION}"


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
    content_type: str = JSON,
    original: Sequence[tuple[str, str]] = (),
    hops: int = 0,
    ed25519: Sequence[Ed25519PrivateKey] = (),
    rsa: RsaSigner | None = None,
) -> dict[str, str]:
    """Return all headers of a request with this body.

    The endpoint's own headers (`custom`) never override Hookfast's, and override those of a request
    that is forwarded (`original`). `hops` are those of the event. `timestamp` is Unix time in
    seconds; `keys` and `ed25519` are the endpoint's live secrets, newest first. Raises ValueError
    if a profile has no key.
    """
    headers = _without(original, custom) | dict(custom)
    headers["Content-Type"] = content_type
    headers["User-Agent"] = _USER_AGENT
    headers["X-Hook-Id"] = message_id
    headers["X-Hook-Topic"] = event_type
    headers["X-Hook-Attempt"] = str(attempt)
    headers["traceparent"] = traceparent
    if hops:
        headers[HOPS_HEADER] = str(hops)
    nonce = new_nonce() if Profile.NONCE in profiles else ""
    signed = merged_headers(
        sign(
            profile,
            keys=keys,
            message_id=message_id,
            timestamp=timestamp,
            body=body,
            hash_name=hash_name,
            event_type=event_type,
            attempt=attempt,
            nonce=nonce,
            ed25519=ed25519,
            rsa=rsa,
        )
        for profile in profiles
    )
    return headers | signed


def _without(original: Sequence[tuple[str, str]], custom: Mapping[str, str]) -> dict[str, str]:
    """Return the original headers whose names, in any case, are not among the custom ones. Repeated
    headers are joined to a list (RFC 9110, section 5.3)."""
    replaced = {name.lower() for name in custom}
    headers: dict[str, str] = {}
    for name, value in original:
        if name.lower() not in replaced:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
