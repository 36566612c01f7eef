"""The outcome of one attempt, and the status of a delivery. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from hookfast.deliveries.evidence import Evidence
from hookfast.errors import InvalidInput

ERROR_TEXT: Final = (
    "What went wrong, in a sentence. Of a success it is null, or says why the rest of an answer "
    "after its 2xx status line was lost."
)
"""The documentation of an attempt's `error`."""


class Result(StrEnum):
    """The class of an attempt's outcome. Every failed request falls into exactly one."""

    SUCCESS = "success"  # 2xx, whatever follows the status line
    STATUS = "status"  # any other complete HTTP answer, redirects included
    CREDENTIALS = "credentials"  # no access token could be obtained
    DNS = "dns"  # the name does not resolve
    ADDRESS = "address"  # the address guard blocked the address of the name
    REFUSED = "refused"  # the connection was refused: nothing listens there
    UNREACHABLE = "unreachable"  # no route to the host or network
    TLS = "tls"  # handshake or certificate
    TIMEOUT = "timeout"  # the total deadline passed
    RESET = "reset"  # the connection broke before the answer was complete
    PROTOCOL = "protocol"  # the answer is not HTTP
    INTERNAL = "internal"  # Hookfast itself could not make the request


class DeliveryStatus(StrEnum):
    """The status of a delivery."""

    PENDING = "pending"  # no attempt made yet (or scheduled for later)
    RETRYING = "retrying"  # failed at least once; `next_attempt_at` says when it is sent again
    HELD = "held"  # waiting because of its endpoint's circuit or state
    PAUSED = "paused"  # waiting because a person paused it
    DELIVERED = "delivered"
    DEAD = "dead"  # ended without success; can be resent
    GONE = "gone"  # the receiver answered 410
    CANCELLED = "cancelled"  # a person ended it

    @property
    def finished(self) -> bool:
        """Whether nothing more happens unless it is resent."""
        return self in _FINISHED


_FINISHED = frozenset(
    {
        DeliveryStatus.DELIVERED,
        DeliveryStatus.DEAD,
        DeliveryStatus.GONE,
        DeliveryStatus.CANCELLED,
    }
)


class Reason(StrEnum):
    """Why a delivery waits, or ended without success."""

    ENDPOINT_LIMIT = "endpoint_limit"  # it waits for its turn by the endpoint's limits
    ENDPOINT_PAUSED = "endpoint_paused"
    CIRCUIT_OPEN = "circuit_open"
    CIRCUIT_HALF_OPEN = "circuit_half_open"  # a probe is in progress, or the next delivery is one
    CIRCUIT_DRAINING = "circuit_draining"  # held deliveries are sent, at a rising rate
    RETRIES_EXHAUSTED = "retries_exhausted"
    PLAN_EXPIRED = "plan_expired"  # the whole length of its retry plan has passed
    NOT_RETRYABLE = "not_retryable"  # its retry plan treats the answer as final
    LOOP_DETECTED = "loop_detected"  # the receiver answered 508
    GONE = "gone"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_DELETED = "endpoint_deleted"
    MAPPING_FAILED = "mapping_failed"  # the subscription's mapping makes no body of the event

    @property
    def waits(self) -> bool:
        """Whether a delivery with this reason waits. Otherwise it has ended."""
        return self in _WAITING


_WAITING = frozenset(
    {
        Reason.ENDPOINT_LIMIT,
        Reason.ENDPOINT_PAUSED,
        Reason.CIRCUIT_OPEN,
        Reason.CIRCUIT_HALF_OPEN,
        Reason.CIRCUIT_DRAINING,
    }
)


def parse_reason(text: str, *, pointer: str) -> Reason:
    """Return the reason with this name. Raises InvalidInput for an unknown name: a filter by it
    could never match."""
    try:
        return Reason(text)
    except ValueError:
        raise InvalidInput.at(pointer, f"unknown reason; use one of {', '.join(Reason)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one HTTP request.

    `error` is a sentence for the endpoint's owner. On success it is None, or says what was wrong
    with the rest of an answer whose status line was a 2xx.
    `duration_ms` covers DNS to the last byte read, in milliseconds.
    `retry_after_seconds` is the receiver's `Retry-After` (RFC 9110, section 10.2.3) on 429 and 503,
    in seconds from the answer; None if it is missing or invalid.
    `response_excerpt` is the start of the answer's body as text, and `evidence` has the headers of
    request and answer.
    """

    result: Result
    duration_ms: float
    status_code: int | None = None
    error: str | None = None
    retry_after_seconds: float | None = None
    response_excerpt: str | None = None
    evidence: Evidence | None = field(default=None, repr=False)

    @property
    def succeeded(self) -> bool:
        """Whether the receiver answered with a 2xx status."""
        return self.result is Result.SUCCESS

    def for_history(self) -> Self:
        """Return the outcome as workflow history may keep it: without URL, headers and body."""
        return replace(self, response_excerpt=None, evidence=None)

    @property
    def gone(self) -> bool:
        """Whether the answer was 410: the URL is gone for ever (RFC 9110, section 15.5.11)."""
        return self.status_code == 410

    @property
    def looped(self) -> bool:
        """Whether the answer was 508: the request goes round in a loop (RFC 5842, section 7.2)."""
        return self.status_code == 508

    @property
    def healthy(self) -> bool:
        """Whether the endpoint works. A 508 ends the delivery and says nothing against it."""
        return self.succeeded or self.looped
