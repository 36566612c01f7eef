"""The headers an endpoint's owner adds to its deliveries: which are accepted, how they are shown.

Their values often are credentials, so they are sealed at rest and no answer repeats them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from api.answers.json_pointer import join
from hookfast.errors import InvalidInput

MAX_HEADERS = 20
MAX_NAME = 100
MAX_VALUE = 1_000
MASK = "***"
"""What answers show in place of a value."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # visible ASCII, spaces only inside
_OURS = frozenset(
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
_OUR_PREFIXES = (
    "content-",
    "proxy-",
    "webhook-",
    "x-forwarded-",  # who sent it is not the endpoint's to say
    "x-hook-",
    "x-webhook-",
)


def check_headers(headers: Mapping[str, str], *, pointer: str = "/headers") -> None:
    """Raises InvalidInput, code `invalid_header`, at the first header that cannot be sent."""
    if len(headers) > MAX_HEADERS:
        raise _invalid(pointer, f"an endpoint has at most {MAX_HEADERS} headers")
    seen: set[str] = set()
    for name, value in headers.items():
        at = join(pointer, name)
        lowered = name.lower()
        if len(name) > MAX_NAME or not _TOKEN.fullmatch(name):
            raise _invalid(at, f"a header's name is an HTTP token of at most {MAX_NAME} characters")
        if lowered in _OURS or lowered.startswith(_OUR_PREFIXES):
            raise _invalid(at, "this header is set by Hookfast itself; leave it out")
        if lowered in seen:
            raise _invalid(at, "this header is there twice, in different cases")
        if len(value) > MAX_VALUE or not _VALUE.fullmatch(value):
            raise _invalid(
                at,
                f"a header's value is 1 to {MAX_VALUE} visible ASCII characters; "
                "spaces only between them",
            )
        if value == MASK:
            raise _invalid(at, "this is the mask that answers show; leave the member out instead")
        seen.add(lowered)


def masked(headers: Mapping[str, object]) -> dict[str, str]:
    """The headers as answers show them."""
    return dict.fromkeys(headers, MASK)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_header")
