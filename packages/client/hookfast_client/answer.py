"""Answers of the API, and the errors that bad answers and failed connections become."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx2

from hookfast_client.errors import (
    ApiError,
    ConnectionFailed,
    TimedOut,
    Unavailable,
    UnexpectedAnswer,
)

NO_SERVICE = "no_service"
"""Code of the error when a proxy answered 502, 503 or 504 in Hookfast's place."""

_FROM_A_PROXY = frozenset({502, 503, 504})
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")
# nothing was sent: no connection, or no place in the pool for one
_NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


@dataclass(frozen=True, slots=True)
class Response:
    """A successful response: `content` is its exact body, `value` the JSON in it (None for 204)."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    value: Any = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode()


def parse_answer(status: int, headers: Mapping[str, str], content: bytes, *, url: str) -> Response:
    """Return a complete answer. Raises ApiError for a problem, Unavailable also when a proxy
    answered for a service that is away, and UnexpectedAnswer for what is not from Hookfast."""
    try:
        value = json.loads(content, parse_int=_integer) if content else None
    except (ValueError, RecursionError):
        value = None
    if 200 <= status < 300 and (isinstance(value, dict) or status == HTTPStatus.NO_CONTENT):
        return Response(status, headers, content, value)
    retry_after = parse_retry_after(headers.get("retry-after"))
    request_id = headers.get("x-request-id")
    if isinstance(value, dict) and isinstance(value.get("detail"), str) and status >= 400:
        raise ApiError.from_problem(
            value, status=status, request_id=request_id, retry_after=retry_after
        )
    what = f"{url} answered {status}{_phrase(status)}, not as Hookfast does."
    if status in _FROM_A_PROXY:
        raise Unavailable(
            what, status=status, code=NO_SERVICE, request_id=request_id, retry_after=retry_after
        )
    raise UnexpectedAnswer(f"{what} Is the URL right?", status=status)


def _integer(digits: str) -> int | Decimal:
    """Return an integer of any size: a received webhook may have one of more than the 4,300 digits
    that `int` converts, and an event that cannot be read would end every poll."""
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def connection_error(error: httpx2.TransportError, *, url: str) -> ConnectionFailed:
    """Return what a failed connection is for the caller."""
    unknown = not isinstance(error, _NEVER_SENT)
    if isinstance(error, httpx2.TimeoutException):
        return TimedOut(f"{url} did not answer in time.", outcome_unknown=unknown)
    if isinstance(error, httpx2.ConnectError):
        return ConnectionFailed(
            f"There is no Hookfast at {url} ({error_text(error)}).", outcome_unknown=unknown
        )
    return ConnectionFailed(
        f"The connection to {url} failed: {error_text(error)}.", outcome_unknown=unknown
    )


def parse_retry_after(text: str | None, *, now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header (RFC 9110, section 10.2.3), which is a number of
    seconds or a date; None if it is missing or neither."""
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if at.tzinfo is None:  # the date says -0000, or no zone
        at = at.replace(tzinfo=UTC)
    return max((at - (now or datetime.now(UTC))).total_seconds(), 0.0)


def error_text(error: Exception) -> str:
    """Return a connection error's text for use within a sentence; the words of its class
    (`read error`) when it has no text, as with some of httpx2's."""
    text = str(error).strip().rstrip(".")
    return text or _WORD_START.sub(" ", type(error).__name__).lower()


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
