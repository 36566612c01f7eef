"""How a request can fail, in the words an endpoint's owner reads.

`RequestFailed` is raised where the cause is known; the sender turns it into an `Outcome`. No
message holds a header, a body or anything else that a receiver or a signature put on the wire.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl

from hookfast.deliveries.outcome import Result
from hookfast.sender.address_guard import AddressRefused
from hookfast.sender.progress import Phase, Progress


class RequestFailed(Exception):
    """No complete HTTP answer came; `result` is the class and `sentence` the reason."""

    def __init__(self, result: Result, sentence: str) -> None:
        super().__init__(sentence)
        self.result = result
        self.sentence = sentence


def timed_out(phase: Phase, peer: str, timeout: float) -> RequestFailed:
    """The total deadline of `timeout` seconds passed in `phase`."""
    return RequestFailed(
        Result.TIMEOUT, f"No answer within {timeout:g} s: {phase.value.format(peer=peer)}"
    )


def unresolved(host: str, error: socket.gaierror) -> RequestFailed:
    """The name server said no, or said nothing."""
    if error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL):
        return RequestFailed(Result.DNS, f"The name server for {host} did not answer.")
    return RequestFailed(Result.DNS, f"The name {host} does not resolve to an address.")


def address_refused(host: str, refused: AddressRefused) -> RequestFailed:
    """The guard refused the host, its port or one of its addresses.

    Which address is not said: a name server may tell us what it tells nobody outside, and who may
    only name a URL must not learn it from us.
    """
    if refused.address == host:
        return RequestFailed(Result.ADDRESS, f"{host} must not be sent to ({refused.rule}).")
    return RequestFailed(
        Result.ADDRESS,
        f"{host} resolves to an address that must not be sent to ({refused.rule}).",
    )


# Our own shortage says nothing about the receiver: it is raised as it is and costs no attempt.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def not_connected(peer: str, error: OSError) -> RequestFailed:
    """A TCP connection could not be opened. Raises `error` itself when the lack is ours."""
    if error.errno in _OURS:
        raise error
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
    """TLS could not be set up: `ssl.SSLError`, or the connection broke during the handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        fault = _CERTIFICATE_FAULTS.get(error.verify_code, "is not trusted")
        return RequestFailed(Result.TLS, f"The certificate of {peer} {fault}.")
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
            return RequestFailed(Result.TLS, f"{peer} does not speak TLS.")
        reason = (error.reason or "unknown error").lower().replace("_", " ")
        return RequestFailed(Result.TLS, f"The TLS handshake with {peer} failed: {reason}.")
    return RequestFailed(Result.TLS, f"{peer} closed the connection during the TLS handshake.")


def broken(peer: str, phase: Phase, error: OSError | None) -> RequestFailed:
    """The connection ended before the answer was complete; `error` is None at an orderly end."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "unknown error").lower().replace("_", " ")
        return RequestFailed(Result.TLS, f"{peer} broke off the TLS connection: {reason}.")
    act = "closed" if error is None else "reset"
    when = {
        Phase.HEADERS: "in the middle of the answer's headers",
        Phase.BODY: "in the middle of the answer's body",
    }.get(phase, "without answering")
    return RequestFailed(Result.RESET, f"{peer} {act} the connection {when}.")


def not_http(peer: str, what: str = "is not valid HTTP/1.1") -> RequestFailed:
    """Bytes came back that are not an HTTP answer we accept."""
    return RequestFailed(Result.PROTOCOL, f"What {peer} answered {what}.")


def answer_refused(peer: str, progress: Progress) -> RequestFailed:
    """h11 did not accept the answer. It words a connection that the peer closed in the middle of a
    body as a breach of the protocol too."""
    return broken(peer, progress.phase, None) if progress.ended else not_http(peer)
