"""The ways in which a request can fail, with messages for the endpoint's owner.

`RequestFailed` is raised where the cause is known; the sender converts it into an `Outcome`. No
message contains a header, a body or any other text from the network.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import traceback

import structlog

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.errors import HookfastError, Unavailable
from hookfast.sender.address_guard import AddressBlocked
from hookfast.sender.phase import Phase

log = structlog.get_logger()


class RequestFailed(Exception):
    """No complete HTTP response arrived; `result` is the category and `sentence` the reason."""

    def __init__(self, result: Result, sentence: str) -> None:
        super().__init__(sentence)
        self.result = result
        self.sentence = sentence


def timed_out(phase: Phase, peer: str, timeout: float) -> RequestFailed:
    """Return the failure when the total deadline of `timeout` seconds passed in `phase`."""
    answer = "complete answer" if phase in (Phase.HEADERS, Phase.BODY) else "answer"
    return RequestFailed(
        Result.TIMEOUT, f"No {answer} within {timeout:g} s: {phase.value.format(peer=peer)}"
    )


def not_made(error: Exception) -> Outcome:
    """Return the outcome of a request that an error prevented; see `internal_error`."""
    failed = internal_error(error)
    return Outcome(result=failed.result, duration_ms=0.0, error=failed.sentence)


def internal_error(error: Exception) -> RequestFailed:
    """Return the failure when an error on our side prevented a request. A HookfastError names its
    cause. Any other error is unexpected: its type and place are logged, but not its message, which
    may quote a secret."""
    if isinstance(error, HookfastError):
        return RequestFailed(
            Result.INTERNAL, f"The request could not be made: {error.message.rstrip('.')}."
        )
    name = type(error).__name__
    log.error(
        "A request could not be made.",
        error=name,
        exception="".join(traceback.format_tb(error.__traceback__)),
    )
    return RequestFailed(
        Result.INTERNAL,
        f"The request could not be made: Hookfast failed ({name}). Its operator finds where in the "
        "log.",
    )


def unresolved(host: str, error: socket.gaierror) -> RequestFailed:
    """Return the failure when the name server has no address, or did not respond."""
    if error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
        return RequestFailed(Result.DNS, f"The name server for {host} did not answer.")
    return RequestFailed(Result.DNS, f"The name {host} does not resolve to an address.")


def address_blocked(host: str, blocked: AddressBlocked) -> RequestFailed:
    """Return the failure when the guard blocked the host, its port or one of its addresses.

    It does not name the address: an internal name server may resolve names that outsiders cannot,
    and the author of a URL must not learn the result.
    """
    if blocked.address == host:
        return RequestFailed(Result.ADDRESS, f"{host} is blocked ({blocked.rule}).")
    return RequestFailed(Result.ADDRESS, f"{host} resolves to a blocked address ({blocked.rule}).")


OWN_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The error numbers of OutOfResources."""


class OutOfResources(Unavailable):
    """This process has no file descriptor or memory left for a connection. That says nothing about
    the receiver, so nothing was sent, and it is not an attempt."""

    code = "out_of_resources"

    def __init__(self, error: OSError) -> None:
        reason = os.strerror(error.errno or 0).lower()
        super().__init__(
            f"This process cannot open a connection ({reason}); raise its limits, or run more of "
            "them. Nothing was sent."
        )


class TunnelRefused(OSError):
    """The egress proxy does not connect to an address; `status` is that of its answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The egress proxy answered {status}.")
        self.status = status


def not_connected(peer: str, error: OSError) -> RequestFailed:
    """Return the failure to open a connection. Raises OutOfResources for our own shortage."""
    if error.errno in OWN_SHORTAGES:
        raise OutOfResources(error) from error
    if isinstance(error, TunnelRefused):
        verb = "could not" if error.status >= 500 else "refused to"
        return RequestFailed(
            Result.UNREACHABLE, f"The egress proxy {verb} connect to {peer} ({error.status})."
        )
    if error.errno == errno.ECONNREFUSED:
        return RequestFailed(
            Result.REFUSED, f"Nothing is listening at {peer}: the connection was refused."
        )
    if error.errno in (errno.ECONNRESET, errno.ECONNABORTED):
        return RequestFailed(Result.RESET, f"The connection to {peer} was reset as it opened.")
    if error.errno == errno.ETIMEDOUT:
        return RequestFailed(Result.TIMEOUT, f"The connection to {peer} did not open in time.")
    reason = os.strerror(error.errno).lower() if error.errno else "unknown network error"
    return RequestFailed(Result.UNREACHABLE, f"{peer} cannot be reached: {reason}.")


# X509_V_ERR_… of OpenSSL's x509_vfy.h
_CERTIFICATE_FAULTS = {
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed",
    19: "leads to a self-signed authority that is not trusted",
    20: "was issued by an authority that is not trusted, or an intermediate is missing",
    21: "cannot be verified: an intermediate certificate is missing",
    23: "has been revoked",
    62: "is for another host name",
    64: "is for another IP address",
}


def handshake_failed(peer: str, error: OSError) -> RequestFailed:
    """Return the failure of a TLS handshake: an `ssl.SSLError`, or a broken connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        fault = _CERTIFICATE_FAULTS.get(error.verify_code, "is not trusted")
        return RequestFailed(Result.TLS, f"The certificate of {peer} {fault}.")
    if isinstance(error, ssl.SSLError):
        if rejection := _certificate_rejection(error):
            return RequestFailed(Result.TLS, f"{peer} {rejection}.")
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
            return RequestFailed(Result.TLS, f"{peer} does not speak TLS.")
        return RequestFailed(
            Result.TLS, f"The TLS handshake with {peer} failed: {tls_reason(error)}."
        )
    return RequestFailed(Result.TLS, f"{peer} closed the connection during the TLS handshake.")


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's name for an error, in words."""
    return (error.reason or "unknown error").lower().replace("_", " ")


# RFC 8446, section 6.2; the names of OpenSSL's reasons end in the alert's.
_CERTIFICATE_ALERTS = {
    "ALERT_CERTIFICATE_REQUIRED": "requires a client certificate",
    "ALERT_CERTIFICATE_EXPIRED": "rejected the client certificate: it has expired",
    "ALERT_CERTIFICATE_REVOKED": "rejected the client certificate: it has been revoked",
    "ALERT_UNKNOWN_CA": "rejected the client certificate: it does not trust its issuer",
    "ALERT_BAD_CERTIFICATE": "rejected the client certificate as invalid",
    "ALERT_UNSUPPORTED_CERTIFICATE": "rejected the client certificate: it does not accept its kind",
    "ALERT_CERTIFICATE_UNKNOWN": "rejected the client certificate",
    "ALERT_ACCESS_DENIED": "rejected the client certificate: it denies access",
    "ALERT_HANDSHAKE_FAILURE": "rejected the TLS handshake; it may require a client certificate",
}


def _certificate_rejection(error: ssl.SSLError) -> str | None:
    """Return how the server rejected our certificate, or None if it did not."""
    reason = error.reason or ""
    return next((text for name, text in _CERTIFICATE_ALERTS.items() if reason.endswith(name)), None)


def broken(peer: str, phase: Phase, error: OSError | None) -> RequestFailed:
    """Return the failure when the connection ended before the response was complete. `error` is
    None when the peer closed it in an orderly way."""
    if isinstance(error, ssl.SSLError):
        # With TLS 1.3 a server judges our certificate after we have sent the request.
        if rejection := _certificate_rejection(error):
            return RequestFailed(Result.TLS, f"{peer} {rejection}.")
        return RequestFailed(
            Result.TLS, f"{peer} broke off the TLS connection: {tls_reason(error)}."
        )
    action = "closed" if error is None else "reset"
    when = {
        Phase.HEADERS: "in the middle of the answer's headers",
        Phase.BODY: "in the middle of the answer's body",
    }.get(phase, "without answering")
    return RequestFailed(Result.RESET, f"{peer} {action} the connection {when}.")


def not_http(peer: str, problem: str = "is not valid HTTP/1.1") -> RequestFailed:
    """Return the failure when the response is not HTTP, or exceeds a limit."""
    return RequestFailed(Result.PROTOCOL, f"The answer of {peer} {problem}.")
