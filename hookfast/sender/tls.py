"""TLS contexts: a shared context for most endpoints, and a context for each TLS identity."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from functools import lru_cache

import httpx2
from cachetools import LRUCache

from hookfast.deliveries.outcome import Result
from hookfast.endpoints.credentials import TlsIdentity
from hookfast.errors import InvalidInput
from hookfast.sender.failure import RequestFailed, tls_reason

_MOST_KEPT = 1_000  # one with the system's authorities takes 1 MB


def default_ssl_context() -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later that verifies certificates by the system's authorities,
    or those in `SSL_CERT_FILE`."""
    return _ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)  # reading the authorities takes 20 ms of CPU
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    return _system_context()


def _system_context() -> ssl.SSLContext:
    context = httpx2.create_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class TlsContexts:
    """The contexts of one sender. `shared` is used where there is no TLS identity."""

    def __init__(self, shared: ssl.SSLContext) -> None:
        shared.set_alpn_protocols(["http/1.1"])
        self._shared = shared
        self._own: LRUCache[TlsIdentity, ssl.SSLContext] = LRUCache(_MOST_KEPT)

    async def of(self, identity: TlsIdentity | None) -> ssl.SSLContext:
        """Return the context for an identity; always the same one while it is in use, so that its
        connections are reused. Raises RequestFailed for an identity that `check_identity` accepted
        when it was saved, and that OpenSSL, or its configuration, does not accept any more."""
        if identity is None:
            return self._shared
        known = self._own.get(identity)
        if known is None:
            # in a thread: it takes up to 20 ms, in which the event loop would serve nobody
            try:
                made = await asyncio.to_thread(_own_context, identity)
            except ssl.SSLError as error:
                raise RequestFailed(
                    Result.TLS,
                    f"The endpoint's TLS identity cannot be used ({_reason(error)}); replace it.",
                ) from error
            known = self._own.setdefault(identity, made)
        return known


def check_identity(identity: TlsIdentity) -> None:
    """Build the context that requests with this identity will use. Takes up to 20 ms of CPU. Raises
    InvalidInput at the member that OpenSSL does not accept."""
    pointer = "/authorities"
    try:
        context = _trusting(identity.authorities)
        pointer = "/certificate"
        _present(context, identity)
    except ssl.SSLError as error:
        raise InvalidInput.at(pointer, f"OpenSSL does not accept it: {_reason(error)}") from None


def _own_context(identity: TlsIdentity) -> ssl.SSLContext:
    context = _trusting(identity.authorities)
    context.set_alpn_protocols(["http/1.1"])
    _present(context, identity)
    return context


def _trusting(authorities: str | None) -> ssl.SSLContext:
    if authorities is None:
        return _system_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The owner may trust an intermediate authority, or the server's certificate alone.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=authorities)
    return context


def _present(context: ssl.SSLContext, identity: TlsIdentity) -> None:
    """Load the client certificate and its key, if there are any. OpenSSL reads them only from
    files: use one in memory where the system has such files, so that the key is on no disk."""
    if identity.certificate is None or identity.private_key is None:
        return
    pem = identity.private_key + identity.certificate
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem.encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by its owner only
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)


# OpenSSL's reasons for what its security level, which the system's policy may raise, forbids
_WEAK = {
    "CA_MD_TOO_WEAK": "a certificate is signed with a weak digest, such as SHA-1; have it issued "
    "with SHA-256",
    "EE_KEY_TOO_SMALL": "the certificate's key is too small; use RSA of 2048 bits or more, or EC",
    "CA_KEY_TOO_SMALL": "an intermediate's key is too small; use RSA of 2048 bits or more, or EC",
}


def _reason(error: ssl.SSLError) -> str:
    return _WEAK.get(error.reason or "") or tls_reason(error)
