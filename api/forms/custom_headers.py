"""Custom headers that an endpoint adds to its deliveries: which are allowed, and how they are
shown.

Their values often are credentials, so they are encrypted at rest and no response shows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hookfast.errors import InvalidInput, join_pointer

MAX_HEADERS = 20
MAX_NAME = 100
MAX_VALUE = 1_000
MASK = "***"
"""Responses show this in place of a value."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # visible ASCII, spaces only inside
_RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "date",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-real-ip",
    }
)
# With these a request passes as one by a program in a cloud, to which metadata services give
# credentials: of Azure and Oracle (`Metadata`), Google and AWS.
_METADATA = frozenset({"metadata", "metadata-flavor", "x-google-metadata-request"})
_METADATA_PREFIX = "x-aws-ec2-metadata-token"
_RESERVED_PREFIXES = (
    "content-",
    "proxy-",
    "webhook-",
    "x-forwarded-",  # an endpoint must not forge the sender
    "x-hook-",
    "x-webhook-",
)


def check_headers(headers: Mapping[str, str], *, pointer: str = "/headers") -> None:
    """Raise InvalidInput, code `invalid_header`, for the first header that cannot be sent."""
    if len(headers) > MAX_HEADERS:
        raise _invalid(pointer, f"an endpoint has at most {MAX_HEADERS} headers")
    seen: set[str] = set()
    for name, value in headers.items():
        at = join_pointer(pointer, name)
        lowered = name.lower()
        if len(name) > MAX_NAME or not _TOKEN.fullmatch(name):
            raise _invalid(at, f"a header's name is an HTTP token of at most {MAX_NAME} characters")
        if lowered in _RESERVED or lowered.startswith(_RESERVED_PREFIXES):
            raise _invalid(at, "this name is reserved for Hookfast and HTTP; use another one")
        if lowered in _METADATA or lowered.startswith(_METADATA_PREFIX):
            raise _invalid(at, "this header is for the metadata services of clouds; leave it out")
        if lowered in seen:
            raise _invalid(at, "this header is repeated with different capitals; keep one")
        if len(value) > MAX_VALUE or not _VALUE.fullmatch(value):
            raise _invalid(
                at,
                f"a header's value is 1 to {MAX_VALUE} visible ASCII characters; "
                "spaces only between them. For a token, see the endpoint's `authentication`",
            )
        if value == MASK:
            raise _invalid(at, "this is the mask that responses show; leave the member out instead")
        seen.add(lowered)


def masked(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the headers as responses show them, with masked values."""
    return dict.fromkeys(headers, MASK)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_header")
