"""Check and describe the certificates and the private key of a TLS identity (RFC 7468). Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput

MAX_PEM = 65_536
"""Longest PEM text, in characters."""
MAX_KEY = 4_000
"""Longest private key, in characters: RSA of 4096 bits. Checking a longer one would take the event
loop seconds (8192 bits: 3 s)."""
_MAX_CERTIFICATES = 20
_MIN_RSA_BITS = 2048


def describe(certificate: str | None, private_key: str | None) -> dict[str, Any]:
    """Return facts about a client certificate, the first in `certificate`: subject, issuer, serial
    number, validity and SHA-256 fingerprint.

    Raises InvalidInput at the faulty member, in particular if the key is not the certificate's.
    """
    if certificate is None:
        raise InvalidInput.at("/certificate", "is required with `private_key`")
    if private_key is None:
        raise InvalidInput.at("/private_key", "is required with `certificate`")
    first = _certificates(certificate, pointer="/certificate")[0]
    if _public(first.public_key()) != _public(_private_key(private_key).public_key()):
        raise InvalidInput.at(
            "/private_key", "is not the key of the first certificate in `certificate`"
        )
    return _facts(first)


def not_after(certificate: str) -> datetime:
    """Return the end of validity of a client certificate that `describe` accepts."""
    return _certificates(certificate, pointer="")[0].not_valid_after_utc


def describe_authorities(authorities: str) -> list[dict[str, Any]]:
    """Return facts about each certificate. Raises InvalidInput at `/authorities`."""
    return [_facts(one) for one in _certificates(authorities, pointer="/authorities")]


def _certificates(pem: str, *, pointer: str) -> list[x509.Certificate]:
    try:
        if len(pem) > MAX_PEM:
            raise ValueError
        found = x509.load_pem_x509_certificates(pem.encode())
        for one in found:
            _facts(one)  # parsed lazily: an invalid name raises only here
            one.public_key()
    except (ValueError, UnsupportedAlgorithm):
        found = []
    if not 1 <= len(found) <= _MAX_CERTIFICATES:
        raise InvalidInput.at(
            pointer,
            f"must be 1 to {_MAX_CERTIFICATES} certificates in PEM "
            f"('-----BEGIN CERTIFICATE-----'), of at most {MAX_PEM // 1024} KiB in all",
        )
    return found


def _private_key(pem: str) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    try:
        if len(pem) > MAX_KEY:
            raise ValueError
        key = load_pem_private_key(pem.encode(), password=None)
    except TypeError:
        raise InvalidInput.at(
            "/private_key", "is encrypted with a password; remove it (`openssl pkey -in key.pem`)"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput.at(
            "/private_key",
            "must be a private key in PEM ('-----BEGIN PRIVATE KEY-----') "
            f"of at most {MAX_KEY} characters",
        ) from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _MIN_RSA_BITS:
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key
    raise InvalidInput.at(
        "/private_key", f"must be an RSA key of at least {_MIN_RSA_BITS} bits, or an EC key"
    )


def _facts(certificate: x509.Certificate) -> dict[str, Any]:
    return {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "serial_number": f"{certificate.serial_number:x}",
        "not_before": rfc3339(certificate.not_valid_before_utc),
        "not_after": rfc3339(certificate.not_valid_after_utc),
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
    }


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded
