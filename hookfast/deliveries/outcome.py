"""What came of one attempt, and where that leaves a delivery. Pure values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hookfast.errors import InvalidInput


class Result(StrEnum):
    """The class of an attempt's outcome; every failed request falls into exactly one."""

    SUCCESS = "success"  # 2xx
    STATUS = "status"  # any other complete HTTP answer, redirects included
    DNS = "dns"  # the name does not resolve
    ADDRESS = "address"  # the address guard refused where the name points
    REFUSED = "refused"  # nothing listens there
    UNREACHABLE = "unreachable"  # no route to the host or network
    TLS = "tls"  # handshake or certificate
    TIMEOUT = "timeout"  # the total deadline passed
    RESET = "reset"  # the connection broke before the answer was complete
    PROTOCOL = "protocol"  # what came back is not HTTP


class DeliveryStatus(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"  # no attempt made yet (or scheduled for later)
    RETRYING = "retrying"  # failed at least once; `next_attempt_at` says when it goes again
    HELD = "held"  # waiting because of its endpoint's circuit or state
    PAUSED = "paused"  # waiting because a person asked
    DELIVERED = "delivered"
    DEAD = "dead"  # ended without success; can be sent again
    GONE = "gone"  # the receiver answered 410
    CANCELLED = "cancelled"  # a person ended it

    @property
    def finished(self) -> bool:
        """Whether nothing more happens unless a person asks."""
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

    ENDPOINT_LIMIT = "endpoint_limit"  # it waits for its turn
    ENDPOINT_PAUSED = "endpoint_paused"
    CIRCUIT_OPEN = "circuit_open"
    RETRIES_EXHAUSTED = "retries_exhausted"
    PLAN_EXPIRED = "plan_expired"  # its retry plan's whole length has passed
    NOT_RETRYABLE = "not_retryable"  # an answer that its retry plan takes for final
    GONE = "gone"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_DELETED = "endpoint_deleted"


def parse_reason(text: str, *, pointer: str) -> Reason:
    """The reason with this name. Raises InvalidInput for any other: a filter that nothing can fit
    is a mistake."""
    try:
        return Reason(text)
    except ValueError:
        raise InvalidInput.at(
            pointer, f"there is no such reason; it is one of {', '.join(Reason)}"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One HTTP request's outcome.

    `error` is a sentence an endpoint's owner understands; None on success.
    `duration_ms` covers DNS to the last byte read, in milliseconds.
    `retry_after_seconds` is the receiver's wish (RFC 9110, section 10.2.3) on 429 and 503, in
    seconds from the answer; None where it was absent or garbage.
    `response_excerpt` is the start of the answer's body as text.
    """

    result: Result
    duration_ms: float
    status_code: int | None = None
    error: str | None = None
    retry_after_seconds: float | None = None
    response_excerpt: str | None = None

    @property
    def succeeded(self) -> bool:
        """Success is 2xx only."""
        return self.result is Result.SUCCESS

    @property
    def gone(self) -> bool:
        """410: the receiver says never to come back (RFC 9110, section 15.5.11)."""
        return self.status_code == 410
