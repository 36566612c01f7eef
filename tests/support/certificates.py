"""Client certificates, and contexts of servers that demand them."""

from __future__ import annotations

import ssl
from typing import Any

import trustme

SHA1_IDENTITY = {
    "certificate": """-----BEGIN CERTIFICATE-----
MIIBCzCBtAIBATAJBgcqhkjOPQQBMBQxEjAQBgNVBAMMCWF1dGhvcml0eTAgFw0y
NjExMjYxNzQ5MTZaGA8yMTI2MTEwMjE3NDkxNlowETEPMA0GA1UEAwwGY2xpZW50
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3omUbZASYLpLvhdP0Sgu5H/3W0Uf
BO09pcgF7CXACv4VRrOZgKHLMi+gURcUXybDifvsjsAKHQdvuOijsabTQzAJBgcq
hkjOPQQBA0cAMEQCIHKYrb5ziVa5VTYSdEswLU2dL3W2tSBKNFty7mMBb1XfAiAN
VQCpk3vy1MhEQq2Vko0Rm7+GefAvT0Xb8j5pK/LZ4A==
-----END CERTIFICATE-----
""",
    "private_key": """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg6dsJTB040t44RDsH
Smy34QUMoVsQQK8j7C0q0vICJVShRANCAATeiZRtkBJguku+F0/RKC7kf/dbRR8E
7T2lyAXsJcAK/hVGs5mAocsyL6BRFxRfJsOJ++yOwAodB2+46KOxptND
-----END PRIVATE KEY-----
""",
}
"""An identity that an authority has signed with SHA-1, until 2126. cryptography parses it and signs
none like it, and OpenSSL does not load it."""


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
