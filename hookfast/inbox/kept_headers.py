"""Which of a request's headers are kept with it and may be forwarded.

Kept is what says what the request is about (`X-GitHub-Event`). Left out is what belongs to the one
connection it came over, what only the sender of a request may say (who it is for, how long, whose
trace), what Hookfast itself sends, and everything that proves something: tokens and passwords, and
signatures too. Who has a body and a signature that carries no time, GitHub's for one, could send
both to the source again under another delivery id.
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
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_PROOF = re.compile(
    r"token|secret|passw|credential|signature|hmac|session|auth(?!or(?!i))|cookie|csrf|jwt|digest"
    r"|(api|access|private|master)[-_]?key|(^|-)(sign|sig|mac)(-|$)"
)
_HARMLESS: Final = frozenset({"i-twilio-idempotency-token", "idempotency-key"})
"""Ids, in spite of their names."""
_LEFT_OUT: Final = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control"),
        *("connection", "date", "expect", "forwarded", "from", "host", "keep-alive", "origin"),
        *("pragma", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade"),
        *("user-agent", "via", "traceparent", "tracestate", "baggage", "true-client-ip"),
        *(
            "upgrade-insecure-requests",
            "x-real-ip",
            "x-client-ip",
            "x-cluster-client-ip",
        ),
        *("x-amzn-trace-id", "x-cloud-trace-context", "cdn-loop"),
    }
)
_REQUEST_IDS: Final = frozenset({"x-request-id", "x-correlation-id"})
"""Of a proxy on the way, mostly; of the delivery where the provider has it there."""
_LEFT_OUT_PREFIXES = (
    *("content-", "if-", "proxy-", "sec-", "x-forwarded-", "x-envoy-", "x-b3-", "cf-", "fly-"),
    *("webhook-", "x-hook-", "x-webhook-"),  # ours, where a delivery is signed anew
)


def kept_headers(
    headers: Iterable[tuple[str, str]],
    *,
    proofs: Iterable[str] = (),
    ids: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """The headers to keep, in their order. `proofs` are names a source's options give to what
    proves something, `ids` those under which its provider sends the delivery's id, in any case."""
    named = {name.lower() for name in proofs}
    left_out = _REQUEST_IDS - {name.lower() for name in ids}
    kept: list[tuple[str, str]] = []
    left = MAX_TOTAL
    for name, value in headers:
        lowered = name.lower()
        text = value.strip(" \t")
        if (
            lowered in named
            or lowered in left_out
            or not _is_kept(lowered)
            or len(text) > MAX_VALUE
        ):
            continue
        if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(text)):
            continue
        left -= len(name) + len(text)
        if left < 0 or len(kept) == MAX_HEADERS:
            break
        kept.append((name, text))
    return kept


def _is_kept(lowered: str) -> bool:
    if lowered in _HARMLESS:
        return True
    if lowered in _LEFT_OUT or lowered.startswith(_LEFT_OUT_PREFIXES):
        return False
    return _PROOF.search(lowered) is None
