"""Client certificates, and contexts of servers that demand them."""

from __future__ import annotations

import ssl
from typing import Any

import trustme


def pem(authority: trustme.CA) -> str:
    """Return the certificate of an authority."""
    return authority.cert_pem.bytes().decode()


def client_identity(
    authority: trustme.CA, name: str = "hookfast@example.com", **options: Any
) -> dict[str, str]:
    """Return the members `certificate` and `private_key` of a new identity."""
    leaf = authority.issue_cert(name, **options)
    return {
        "certificate": "".join(each.bytes().decode() for each in leaf.cert_chain_pems),
        "private_key": leaf.private_key_pem.bytes().decode(),
    }


def demanding_context(server: trustme.CA, *, clients: trustme.CA) -> ssl.SSLContext:
    """Return the context of a server on loopback that demands certificates of `clients`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.issue_cert("127.0.0.1").configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
