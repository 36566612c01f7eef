"""The answers that a server gives below the application: complete HTTP/1.1 responses with a problem
document (RFC 9457), after which the connection is closed."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final


def _problem(status: HTTPStatus, code: str, detail: str, *headers: str) -> bytes:
    body = json.dumps(
        {
            "type": f"urn:hookfast:problem:{code}",
            "title": status.phrase,
            "status": status,
            "detail": detail,
            "code": code,
        },
        separators=(",", ":"),
    )
    head = (
        f"HTTP/1.1 {status} {status.phrase}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "connection: close",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        *headers,
    )
    return "\r\n".join((*head, "", body)).encode("ascii")


INVALID: Final = _problem(
    HTTPStatus.BAD_REQUEST, "invalid_http", "The request is not valid HTTP (RFC 9112)."
)
LARGE_HEAD: Final = _problem(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "headers_too_large",
    "The request line and header fields are too large.",
)
FULL: Final = _problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "overloaded",
    "Too many connections are open. Nothing was read; send the request again.",
    "retry-after: 5",
)
