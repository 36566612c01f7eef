"""The evidence of an attempt: where its request went, and the headers of the request and of its
answer. Pure.

It is stored with the attempt and shown to everyone who may read the endpoint, so secrets never get
into it. Of a request, only values that are known to be harmless are shown. Of an answer, all but
cookies and secrets are.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

MASK: Final = "***"
"""What is shown in place of a secret value."""
MAX_FIELDS: Final = 64
MAX_NAME: Final = 100
MAX_VALUE: Final = 1024
"""Most headers of a message, and bytes of each name and value. A longer one ends in `…`."""

RawHeaders = Sequence[tuple[str, str]]
"""Names and values as they were on the wire. Each character is a byte (Latin-1)."""

# What Hookfast itself sets, except signatures. No endpoint may choose these names for its own
# headers (`api.forms.custom_headers`), whose values are secrets.
_SHOWN_OF_REQUESTS = frozenset(
    {
        *("host", "accept-encoding", "content-type", "content-length", "user-agent"),
        *("traceparent", "x-hook-id", "x-hook-topic", "x-hook-attempt", "x-hook-timestamp"),
        *("x-hook-hops", "webhook-id", "webhook-timestamp"),
        *("x-webhook-id", "x-webhook-event", "x-webhook-attempt", "x-webhook-timestamp"),
        *("x-webhook-nonce", "x-webhook-key-id"),
    }
)
# The last two are those of receivers that send the request's headers back.
_HIDDEN_OF_ANSWERS = frozenset({"set-cookie", "set-cookie2", "authorization", "cookie"})
_CUT = "…".encode().decode("latin-1")


class Start(Protocol):
    """Returns the first `limit` bytes of a part of an answer, without secrets, and whether there is
    more; with `cut`, there is."""

    def __call__(self, data: bytes, limit: int, *, cut: bool = False) -> tuple[bytes, bool]: ...


def start_of(data: bytes, limit: int, *, cut: bool = False) -> tuple[bytes, bool]:
    """Return the first `limit` bytes of `data`, in which there can be no secret, and whether there
    is more; with `cut`, there is."""
    return data[:limit], cut or len(data) > limit


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
    start: Start = start_of,
) -> Evidence:
    """Return the evidence of a request to `url` with the headers `sent`, and of its answer with the
    headers `received`; None if there was none. Of each, at most `limit` bytes are kept, and a line
    that says how many headers are left out; with a limit of 0, nothing.

    Values that were sent are masked, except those of Hookfast's own headers and of those named in
    `public` (in lower case). Of the answer, cookies and returned credentials are masked, and the
    secrets that `start` masks.
    """

    if sent is None or not limit:
        return Evidence(url)
    shown = _SHOWN_OF_REQUESTS
    if public:
        shown = shown.union(public)
    request = _lines(sent, limit, start_of, names=shown, shown=True)
    if received is None:
        return Evidence(url, request)
    answer = _lines(received, limit, start, names=_HIDDEN_OF_ANSWERS, shown=False)
    return Evidence(url, request, answer)


def header_pairs(lines: str | None) -> list[tuple[str, str]] | None:
    """Return the names and values of headers in that form. A pair named `…`, which no header can
    be, says how many are left out."""
    if lines is None:
        return None
    # `splitlines` would also split at characters that a value may contain
    parts = (line.partition(": ") for line in lines.split("\n") if line)
    return [(name, value) for name, _, value in parts]


def storable_text(data: bytes, *, cut: bool = False) -> str:
    """Return `data` as text that every database can store: NUL and invalid UTF-8 become U+FFFD, and
    a character that was cut in two is dropped."""
    if cut:
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    else:
        text = data.decode("utf-8", "replace")
    return text.replace("\x00", "\ufffd")


def _lines(
    headers: RawHeaders, limit: int, start: Start, *, names: Collection[str], shown: bool
) -> str:
    """Return the headers, with the values of those in `names` shown or masked and all others the
    other way round."""
    lines = []
    for name, value in headers[:MAX_FIELDS]:
        if (name.lower() in names) is not shown:
            value = MASK
        if len(name) > MAX_NAME or len(value) > MAX_VALUE:
            name, value = _shortened(name, MAX_NAME, start), _shortened(value, MAX_VALUE, start)
        lines.append(f"{name}: {value}")
    while sum(map(len, lines)) + len(lines) > limit:
        lines.pop()
    left_out = len(headers) - len(lines)
    # All lines at once: one at a time takes four times as long. Joined by line breaks, they would
    # look like base64 in several lines, and cost another search.
    text = "\0".join(lines).encode("latin-1")
    if text.count(b"\0") < max(1, len(lines)):
        text = start(text, len(text))[0].replace(b"\0", b"\n")
    else:  # a value has NUL, although none may (RFC 9110, section 5.5)
        text, _ = start("\n".join(lines).encode("latin-1"), len(text))
    if left_out:
        text += f"\n{_CUT}: {left_out} more".encode("latin-1")
    return storable_text(text)


def _shortened(text: str, length: int, start: Start) -> str:
    kept, more = start(text.encode("latin-1"), length)
    return kept.decode("latin-1") + _CUT if more else kept.decode("latin-1")
