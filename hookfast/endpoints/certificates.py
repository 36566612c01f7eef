"""Read, check and describe the certificates and the private key of a TLS identity. Pure.

PEM (RFC 7468) is copied from mails, consoles and exports, and each TLS library tolerates other
surroundings of its blocks. So it is read tolerantly once, and only clean PEM is stored.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from cryptography.x509.oid import PublicKeyAlgorithmOID

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput

MAX_PEM = 65_536
"""Longest PEM text, in characters."""
_MAX_KEY_BYTES = 2_600
"""Longest private key: RSA of 4096 bits. Checking a longer one would take seconds (8192 bits: 3
s)."""
_MAX_CERTIFICATES = 20
_MIN_RSA_BITS = 2048

_BOUNDARY = re.compile("-----(BEGIN|END) ([A-Z0-9 ]+)-----")
# OpenSSL's "trusted" form appends its trust settings, which are not used here.
_TRUSTED = "TRUSTED CERTIFICATE"
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", _TRUSTED)
_ENCRYPTED_KEY = "ENCRYPTED PRIVATE KEY"
_KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", _ENCRYPTED_KEY)


class _Encrypted(ValueError):
    """A private key is encrypted with a password."""


def clean_certificates(pem: str, *, pointer: str) -> str:
    """Return the certificates of a PEM text in clean PEM, without what is around them. Raises
    InvalidInput at `pointer`."""
    found = _certificates(pem, pointer=pointer)
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


def clean_private_key(pem: str) -> str:
    """Return the private key of a PEM text in clean PEM (PKCS #8). Raises InvalidInput at
    `/private_key`."""
    encoded = _private_key(pem).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded.decode()


def describe(certificate: str | None, private_key: str | None) -> dict[str, Any]:
    """Return facts about a client certificate, the first in `certificate`: subject, issuer, serial
    number, validity and SHA-256 fingerprint.

    Raises InvalidInput at the faulty member, in particular if the key is not the certificate's.
    """
    if certificate is None:
        raise InvalidInput.at("/certificate", "is required with `private_key`")
    if private_key is None:
        raise InvalidInput.at("/private_key", "is required with `certificate`")
    first, *others = _certificates(certificate, pointer="/certificate")
    if first.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        raise InvalidInput.at(
            "/certificate",
            "is for an RSA-PSS key, which cannot be used here; create an RSA key without this "
            "limit (`openssl genpkey -algorithm RSA`) or an EC key, and have the certificate "
            "issued for it",
        )
    key = _public(_private_key(private_key).public_key())
    if _public(first.public_key()) != key:
        if any(_public(other.public_key()) == key for other in others):
            raise InvalidInput.at(
                "/certificate",
                "must begin with the certificate of the private key; its intermediates follow",
            )
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


def _certificates(pem: str, *, pointer: str) -> Sequence[x509.Certificate]:
    found: list[x509.Certificate] = []
    try:
        for label, der in _blocks(pem, of=_CERTIFICATES):
            one = x509.load_der_x509_certificate(_element(der) if label == _TRUSTED else der)
            _facts(one)  # parsed lazily: an invalid name raises only here
            one.public_key()
            found.append(one)
    except (ValueError, UnsupportedAlgorithm):
        found = []
    if not 1 <= len(found) <= _MAX_CERTIFICATES:
        raise InvalidInput.at(
            pointer,
            f"must be 1 to {_MAX_CERTIFICATES} certificates in PEM "
            f"('-----BEGIN CERTIFICATE-----'), of at most {MAX_PEM // 1024} KiB in all; convert "
            "other files, such as DER or PKCS #12, with `openssl`",
        )
    return found


def _private_key(pem: str) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    try:
        [(label, der)] = _blocks(pem, of=_KEYS)
        if label == _ENCRYPTED_KEY:
            raise _Encrypted
        if len(der) > _MAX_KEY_BYTES:
            raise ValueError
        key = load_der_private_key(der, password=None)
    except (_Encrypted, TypeError):  # TypeError: encrypted, under a label that does not say so
        raise InvalidInput.at(
            "/private_key", "is encrypted with a password; remove it (`openssl pkey -in key.pem`)"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput.at(
            "/private_key",
            "must be one private key in PEM ('-----BEGIN PRIVATE KEY-----'), of RSA at most 4096 "
            "bits; convert other files, such as DER or PKCS #12, with `openssl`",
        ) from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _MIN_RSA_BITS:
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key
    raise InvalidInput.at(
        "/private_key", f"must be an RSA key of at least {_MIN_RSA_BITS} bits, or an EC key"
    )


def _blocks(pem: str, *, of: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield label and content of each block with one of these labels. What is outside of blocks,
    and white space within, has no meaning. Raises ValueError for a damaged block."""
    if len(pem) > MAX_PEM:
        raise ValueError
    begin: re.Match[str] | None = None
    for boundary in _BOUNDARY.finditer(pem):
        kind, label = boundary.groups()
        if (kind == "END") is (begin is None) or (begin is not None and label != begin[2]):
            raise ValueError
        if begin is None:
            begin = boundary
            continue
        text = pem[begin.end() : boundary.start()]
        begin = None
        if label in of:
            if "Proc-Type:" in text:  # RFC 1421, section 4.6.1.1: OpenSSL's old form
                raise _Encrypted
            yield label, base64.b64decode("".join(text.split()), validate=True)
    if begin is not None:
        raise ValueError


def _element(der: bytes) -> bytes:
    """Return the first element of DER that may be followed by others (X.690, section 8.1.3)."""
    start, length = 2, der[1] if len(der) > 1 else 0
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    return der[: start + length]


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
