"""The HTTP request to an endpoint: its body, encrypted if the endpoint wants that, and signed
headers. Deliveries and tests of an endpoint share it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hookfast.deliveries.headers import JSON, request_headers
from hookfast.errors import Misconfigured
from hookfast.signing.encryption import CONTENT_TYPE as ENCRYPTED
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint

_THREAD_BYTES = 512 * 1024  # signing more than this twice takes more than a millisecond


async def outgoing_request(
    body: bytes,
    *,
    endpoint: CachedEndpoint,
    message_id: str,
    event_type: str,
    attempt: int,
    timestamp: int,
    traceparent: str,
    content_type: str = JSON,
    original: Sequence[tuple[str, str]] = (),
    hops: int = 0,
) -> tuple[dict[str, str], bytes]:
    """The request's headers and body. `timestamp` is Unix time in seconds; `original` are headers
    of a request that is sent on. Raises Misconfigured for an endpoint with a fault."""
    if endpoint.fault is not None:
        raise Misconfigured(endpoint.fault)

    def build() -> tuple[dict[str, str], bytes]:
        sent, sent_type, sent_on = body, content_type, original
        if endpoint.encryption is not None:
            sent, sent_type = endpoint.encryption.encrypt(body), ENCRYPTED
            # it is of the body inside: a receiver would unpack the encrypted one
            sent_on = [one for one in original if one[0].lower() != "content-encoding"]
        headers = request_headers(
            sent,
            message_id=message_id,
            event_type=event_type,
            attempt=attempt,
            timestamp=timestamp,
            profiles=endpoint.profiles,
            keys=endpoint.keys,
            hash_name=endpoint.hash_name,
            custom=endpoint.headers,
            traceparent=traceparent,
            content_type=sent_type,
            original=sent_on,
            hops=hops,
            ed25519=endpoint.ed25519,
            rsa=endpoint.rsa,
        )
        return headers, sent

    is_quick = endpoint.rsa is None and endpoint.encryption is None
    if is_quick and len(body) <= _THREAD_BYTES:
        return build()
    # takes 1 ms or more, in which the event loop would serve no other request
    return await asyncio.to_thread(build)
