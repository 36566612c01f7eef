"""A TLS server that demands client certificates, and the authority that issues them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from hookfast.endpoints.credentials import TlsIdentity


class MutualTlsServer:
    """Use it as a context manager. It trusts the client certificates of one authority, without
    those in `revoked`. `clients` are the names of the certificates with which requests came, one
    for each request; `rejected` are OpenSSL's reasons for handshakes that it ended; `connections`
    counts those that it accepted."""

    def __init__(
        self,
        certificate: trustme.LeafCert,
        *,
        clients_of: trustme.CA,
        revoked: tuple[trustme.LeafCert, ...] = (),
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        self.clients: list[str] = []
        self.rejected: list[str] = []
        self.connections = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = self._context.maximum_version = version
        self._context.verify_mode = ssl.CERT_REQUIRED
        certificate.configure_cert(self._context)
        self.trust(clients_of, revoked)
        self._http = _Http(self)
        self.port: int = self._http.server_port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"

    def trust(self, authority: trustme.CA, revoked: tuple[trustme.LeafCert, ...] = ()) -> None:
        """Trust this authority's certificates too, except revoked ones."""
        authority.configure_trust(self._context)
        if revoked:
            self._context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            with tempfile.NamedTemporaryFile() as file:
                file.write(_revocation_list(authority, revoked))
                file.flush()
                self._context.load_verify_locations(file.name)

    def wrap(self, accepted: socket.socket) -> ssl.SSLSocket | None:
        """Do a handshake, and return None if that fails."""
        secure = self._context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        )
        try:
            secure.do_handshake()
        except ssl.SSLError as error:
            self.rejected.append(error.reason)
            # Closing with the request unread would reset the connection, often before the alert has
            # been read: the kernel then discards it.
            with secure, contextlib.suppress(OSError):
                secure.shutdown(socket.SHUT_WR)
                while secure.recv(4096):
                    pass
            return None
        self.connections += 1
        return secure

    def __enter__(self) -> MutualTlsServer:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    def __init__(self, tls: MutualTlsServer) -> None:
        self.tls = tls
        super().__init__(("127.0.0.1", 0), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        # in the connection's own thread: a slow handshake delays nobody
        secure = self.tls.wrap(request)
        if secure is not None:
            with secure, contextlib.suppress(OSError):
                _Handler(secure, client_address, self)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        certificate: Any = self.connection.getpeercert()
        [(_, name)] = certificate["subjectAltName"]
        self.server.tls.clients.append(name)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def issue_identity(
    authority: trustme.CA,
    name: str,
    *,
    not_after: datetime | None = None,
    trusts: str | None = None,
) -> TlsIdentity:
    """Return an identity with a new certificate for this e-mail address."""
    return identity_of(authority.issue_cert(name, not_after=not_after), trusts=trusts)


def identity_of(certificate: trustme.LeafCert, *, trusts: str | None = None) -> TlsIdentity:
    """Return the identity with this certificate; `trusts` are authorities of servers, in PEM."""
    chain = "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)
    return TlsIdentity(chain, certificate.private_key_pem.bytes().decode(), trusts)


def pem_of(authority: trustme.CA) -> str:
    """Return the authority's own certificate."""
    return authority.cert_pem.bytes().decode()


def _revocation_list(authority: trustme.CA, revoked: tuple[trustme.LeafCert, ...]) -> bytes:
    now = datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key: Any = load_pem_private_key(authority.private_key_pem.bytes(), password=None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now - timedelta(days=1))
        .next_update(now + timedelta(days=1))
    )
    for certificate in revoked:
        serial = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(serial.serial_number)
            .revocation_date(now - timedelta(hours=1))
            .build()
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
