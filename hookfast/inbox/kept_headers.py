"""Choose the headers of an inbound request that are stored and may be forwarded.

Headers that describe the event are kept (`X-GitHub-Event`), and so is `Content-Encoding`, without
which nobody could read a compressed body. Dropped are headers of the connection,
headers that only the sender of a request may set (host, length, trace), headers that Hookfast sends
itself, and all credentials: tokens, passwords and also signatures. Anyone with a body and a
signature without a time, such as GitHub's, could replay both under another delivery id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_HEADERS = 50
MAX_VALUE = 4_096
MAX_TOTAL = 16_384
"""Characters of all names and values together."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
"""RFC 9110, section 5.5: visible ASCII and `obs-text`, with blanks and tabs inside."""
_CREDENTIAL = re.compile(
    r"token|secret|passw|credential|signature|hmac|session|auth(?!or(?!i))|cookie|csrf|jwt|digest"
    r"|(api|access|private|master)[-_]?key|(^|-)(sign|sig|mac)(-|$)"
)
_KEPT: Final = frozenset({"i-twilio-idempotency-token", "idempotency-key", "content-encoding"})
"""Ids whose names look like those of credentials, and what the body needs to be read."""
_DROPPED: Final = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control"),
        *("connection", "date", "expect", "forwarded", "from", "host", "keep-alive", "origin"),
        *("pragma", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade"),
        *("user-agent", "via", "traceparent", "tracestate", "baggage", "true-client-ip"),
        *("upgrade-insecure-requests", "x-real-ip", "x-client-ip", "x-cluster-client-ip"),
        *("x-amzn-trace-id", "x-cloud-trace-context", "cdn-loop"),
    }
)
_REQUEST_IDS: Final = frozenset({"x-request-id", "x-correlation-id"})
"""Usually set by a proxy; kept only when the provider sends its delivery id in them."""
_DROPPED_PREFIXES = (
    *("content-", "if-", "proxy-", "sec-", "x-forwarded-", "x-envoy-", "x-b3-", "cf-", "fly-"),
    *("webhook-", "x-hook-", "x-webhook-"),  # ours: each delivery is signed again
)


def kept_headers(
    headers: Iterable[tuple[str, str]],
    *,
    credentials: Iterable[str] = (),
    ids: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """Return the headers to keep, in their order. `credentials` are header names that the source's
    options name as credentials, `ids` those in which its provider sends the delivery id."""
    dropped = {name.lower() for name in credentials}
    dropped |= _REQUEST_IDS - {name.lower() for name in ids}
    kept: list[tuple[str, str]] = []
    remaining = MAX_TOTAL
    for name, value in headers:
        lowered = name.lower()
        if lowered in dropped or not _may_be_kept(lowered) or len(value) > MAX_VALUE:
            continue
        if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
            continue
        remaining -= len(name) + len(value)
        if remaining < 0 or len(kept) == MAX_HEADERS:
            break
        kept.append((name, value))
    return kept


def _may_be_kept(lowered: str) -> bool:
    if lowered in _KEPT:
        return True
    if lowered in _DROPPED or lowered.startswith(_DROPPED_PREFIXES):
        return False
    return _CREDENTIAL.search(lowered) is None
