"""TLS contexts: a shared context for most endpoints, and a context for each TLS identity."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from functools import lru_cache

import httpx2
from cachetools import LRUCache

from hookfast.endpoints.credentials import TlsIdentity

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
        """Return the context for an identity, which must be valid; always the same one while it is
        in use, so that its connections are reused."""
        if identity is None:
            return self._shared
        known = self._own.get(identity)
        if known is None:
            # in a thread: it takes up to 20 ms, in which the event loop would serve nobody
            made = await asyncio.to_thread(_own_context, identity)
            known = self._own.setdefault(identity, made)
        return known


def _own_context(identity: TlsIdentity) -> ssl.SSLContext:
    if identity.authorities is None:
        context = _system_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The owner may trust an intermediate authority, or the server's certificate alone.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=identity.authorities)
    context.set_alpn_protocols(["http/1.1"])
    if identity.certificate is not None and identity.private_key is not None:
        _load_chain(context, f"{identity.private_key.strip()}\n{identity.certificate}")
    return context


def _load_chain(context: ssl.SSLContext, pem: str) -> None:
    """Load a key and its certificates. OpenSSL reads them only from files: use one in memory where
    the system has such files, so that the key is on no disk."""
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
