"""The evidence of an attempt: where its request went, and the headers of the request and of its
answer. Pure.

It is stored with the attempt and shown to everyone who may read the endpoint, so secrets never get
into it. Of a request, only values that are known to be harmless are shown. Of an answer, all but
cookies are.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hookfast.audit import MASK

MAX_FIELDS: Final = 64
MAX_NAME: Final = 100
MAX_VALUE: Final = 1024
"""Most headers of a message, and bytes of each name and value. A longer one ends in `…`."""

RawHeaders = Iterable[tuple[bytes, bytes]]
"""Names and values as they were on the wire."""

# What Hookfast itself sets, except signatures. No endpoint may choose these names for its own
# headers (`api.forms.custom_headers`), whose values are secrets.
_SHOWN_OF_REQUESTS = frozenset(
    {
        *("host", "accept-encoding", "content-type", "content-length", "user-agent"),
        *("traceparent", "x-hook-id", "x-hook-topic", "x-hook-attempt", "x-hook-timestamp"),
        *("webhook-id", "webhook-timestamp"),
        *("x-webhook-id", "x-webhook-event", "x-webhook-attempt", "x-webhook-timestamp"),
        *("x-webhook-nonce", "x-webhook-key-id"),
    }
)
# The last two are those of receivers that send the request's headers back.
_HIDDEN_OF_ANSWERS = frozenset({"set-cookie", "set-cookie2", "authorization", "cookie"})
_CUT = "…"
_MASKED = MASK.encode()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The URL, and the headers as text with a line `Name: value` for each, in their order.

    `request_headers` are those that were sent last, None if nothing was sent; `response_headers`
    are None without a complete answer. Both are None if headers are not kept.
    """

    url: str
    request_headers: str | None = None
    response_headers: str | None = None


def evidence_of(
    url: str,
    *,
    sent: RawHeaders | None,
    received: RawHeaders | None,
    public: Collection[str] = (),
    limit: int,
) -> Evidence:
    """Return the evidence of a request to `url` with the headers `sent`, and of its answer with the
    headers `received`; None if there was none. Of each, at most `limit` bytes are kept, and a line
    that says how many headers are left out; with a limit of 0, nothing.

    Values that were sent are masked, except those of Hookfast's own headers and of those named in
    `public` (in lower case). Of the answer, cookies and returned credentials are masked.
    """

    def hidden(name: str) -> bool:
        return name not in _SHOWN_OF_REQUESTS and name not in public

    if sent is None or not limit:
        return Evidence(url)
    request = _lines(sent, hidden, limit=limit)
    if received is None:
        return Evidence(url, request)
    return Evidence(url, request, _lines(received, _HIDDEN_OF_ANSWERS.__contains__, limit=limit))


def header_pairs(lines: str | None) -> list[tuple[str, str]] | None:
    """Return the names and values of headers in that form. A pair named `…`, which no header can
    be, says how many are left out."""
    if lines is None:
        return None
    # `splitlines` would also split at characters that a value may contain
    parts = (line.partition(": ") for line in lines.split("\n") if line)
    return [(name, value) for name, _, value in parts]


def storable_text(data: bytes, *, cut: bool) -> str:
    """Return `data` as text that every database can store: NUL and invalid UTF-8 become U+FFFD, and
    a character that was cut in two is dropped."""
    if cut:
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    else:
        text = data.decode("utf-8", "replace")
    return text.replace("\x00", "\ufffd")


def _lines(headers: RawHeaders, hidden: Callable[[str], bool], *, limit: int) -> str:
    lines: list[str] = []
    left_out = 0
    for name, value in headers:
        shown_name = _shortened(name, MAX_NAME)
        kept = _MASKED if hidden(shown_name.lower()) else value
        limit -= len(name) + min(len(kept), MAX_VALUE) + len(": \n")
        if limit < 0 or len(lines) == MAX_FIELDS:
            limit = -1  # the rest is left out too, also what would still fit
            left_out += 1
        else:
            lines.append(f"{shown_name}: {_shortened(kept, MAX_VALUE)}")
    if left_out:
        lines.append(f"{_CUT}: {left_out} more")
    return "\n".join(lines)


def _shortened(data: bytes, length: int) -> str:
    if len(data) <= length:
        return storable_text(data, cut=False)
    return storable_text(data[:length], cut=True) + _CUT
