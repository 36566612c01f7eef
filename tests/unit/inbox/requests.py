"""Create inbound requests for tests, with signatures by other code than the verifiers'."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC

from hookfast.inbox import InboundRequest, Provider, RequestHeaders, RequestRejected

URL = "https://hooks.acme.example/in/src_1"
TIME = 1_700_000_000
NOW = datetime.fromtimestamp(TIME, UTC)
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
ACCEPTED = "accepted"

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def received(
    headers: Headers,
    body: bytes = b"{}",
    *,
    url: str = URL,
    content_type: str | None = JSON,
) -> InboundRequest:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if content_type is not None and not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("Content-Type", content_type))
    return InboundRequest(
        method="POST",
        url=url,
        headers=RequestHeaders(pairs),
        body=body,
        caller="192.0.2.1",
        at=NOW,
    )


def outcome(
    provider: Provider, request: InboundRequest, *secrets: str, now: datetime | None = None
) -> str:
    """Verify the request. Return `accepted`, or the code of the rejection."""
    try:
        provider.verify(request, secrets=secrets, now=now or NOW)
    except RequestRejected as error:
        rejected = error
    else:
        return ACCEPTED
    told = [secret for secret in secrets if len(secret) >= 16 and secret in rejected.message]
    assert not told, "the refusal tells a secret"
    return rejected.code


def at(seconds: float) -> datetime:
    """Return the time this many seconds after NOW."""
    return datetime.fromtimestamp(TIME + seconds, UTC)


def mac(key: bytes | str, message: bytes, algorithm: hashes.HashAlgorithm | None = None) -> bytes:
    """Compute an HMAC (RFC 2104) with OpenSSL; the verifiers use the standard library."""
    raw = HMAC(key.encode() if isinstance(key, str) else key, algorithm or hashes.SHA256())
    raw.update(message)
    return raw.finalize()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def form(fields: Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    return urlencode(list(fields.items()) if isinstance(fields, Mapping) else list(fields)).encode()
