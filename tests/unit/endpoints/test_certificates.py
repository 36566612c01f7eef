"""Certificates and keys of TLS identities: which are accepted, and what is shown of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from hookfast.endpoints.certificates import MAX_KEY, MAX_PEM, describe, describe_authorities
from hookfast.errors import InvalidInput
from tests.support.certificates import client_identity, pem

AUTHORITY = trustme.CA()
IDENTITY = client_identity(AUTHORITY)


def key_pem(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    encryption: KeySerializationEncryption | None = None,
) -> str:
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()
    ).decode()


def faults(certificate: str | None, private_key: str | None) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as caught:
        describe(certificate, private_key)
    [error] = caught.value.errors
    return error.pointer, error.detail


@pytest.mark.parametrize("kind", [trustme.KeyType.ECDSA, trustme.KeyType.RSA])
def test_facts_are_those_of_the_first_certificate(kind: trustme.KeyType) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    between = AUTHORITY.create_child_ca()
    identity = client_identity(between, not_after=ends, key_type=kind)
    facts = describe(**identity)
    [authority] = describe_authorities(pem(AUTHORITY))
    assert facts["not_after"].startswith(ends.isoformat()[:19])
    assert facts["issuer"] != authority["subject"]  # the intermediate
    assert facts["sha256"] != authority["sha256"]
    assert all(isinstance(value, str) for value in facts.values())


def test_an_expired_certificate_is_accepted_and_shown_as_such() -> None:
    """Only the receiver can say whether it accepts it; the attempt's error then says why not."""
    ended = datetime.now(UTC) - timedelta(days=1)
    identity = client_identity(AUTHORITY, not_before=ended - timedelta(days=1), not_after=ended)
    assert datetime.fromisoformat(describe(**identity)["not_after"]) < datetime.now(UTC)


def test_certificate_and_key_are_required_together() -> None:
    assert faults(None, IDENTITY["private_key"])[0] == "/certificate"
    assert faults(IDENTITY["certificate"], None)[0] == "/private_key"


def test_another_certificates_key_is_rejected() -> None:
    other = client_identity(AUTHORITY)["private_key"]
    pointer, detail = faults(IDENTITY["certificate"], other)
    assert pointer == "/private_key"
    assert "is not the key of the first certificate" in detail


def test_an_encrypted_key_is_rejected_with_the_command_that_decrypts_it() -> None:
    encrypted = key_pem(ec.generate_private_key(ec.SECP256R1()), BestAvailableEncryption(b"x"))
    pointer, detail = faults(IDENTITY["certificate"], encrypted)
    assert pointer == "/private_key"
    assert "openssl pkey" in detail


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", "must be a private key in PEM"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "in PEM"),
        (key_pem(rsa.generate_private_key(65537, 1024)), "at least 2048 bits"),  # noqa: S505 - so
        (key_pem(ed25519.Ed25519PrivateKey.generate()), "or an EC key"),
        (IDENTITY["private_key"] + "#" * MAX_KEY, f"at most {MAX_KEY} characters"),
    ],
)
def test_an_unusable_key_is_rejected(key: str, words: str) -> None:
    pointer, detail = faults(IDENTITY["certificate"], key)
    assert pointer == "/private_key"
    assert words in detail


def test_a_key_of_4096_bits_is_short_enough() -> None:
    key = rsa.generate_private_key(65537, 4096)
    pkcs1 = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert max(len(key_pem(key)), len(pkcs1)) < MAX_KEY


@pytest.mark.parametrize(
    "authorities",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        IDENTITY["private_key"],
        pem(AUTHORITY) * 21,
        pem(AUTHORITY) + "#" * MAX_PEM,
    ],
)
def test_unusable_authorities_are_rejected(authorities: str) -> None:
    with pytest.raises(InvalidInput, match="must be 1 to 20 certificates in PEM") as caught:
        describe_authorities(authorities)
    assert caught.value.errors[0].pointer == "/authorities"
