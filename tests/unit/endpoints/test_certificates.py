"""Certificates and keys of TLS identities: which are accepted, what is stored, and what is shown of
them. Each that is accepted is also loaded as requests load it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from hookfast.endpoints.certificates import MAX_PEM, describe, describe_authorities
from hookfast.endpoints.credentials import TlsIdentity
from hookfast.errors import InvalidInput
from hookfast.sender import check_identity
from tests.support.certificates import SHA1_IDENTITY, client_identity, pem

AUTHORITY = trustme.CA()
IDENTITY = client_identity(AUTHORITY)


def key_pem(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    encryption: KeySerializationEncryption | None = None,
) -> str:
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()
    ).decode()


@cache
def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    """Return a key, which takes up to a second to generate: no module does while it is imported,
    because every process imports all modules."""
    return rsa.generate_private_key(65537, bits)


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


def test_a_certificate_of_an_rsa_pss_key_is_rejected_with_what_to_do() -> None:
    identity = client_identity(AUTHORITY, key_type=trustme.KeyType.RSA)
    der = x509.load_pem_x509_certificate(identity["certificate"].encode()).public_bytes(
        Encoding.DER
    )
    assert der.count(_RSA) == 1  # of the key
    certificate = x509.load_der_x509_certificate(der.replace(_RSA, _RSA_PSS))
    pointer, detail = faults(
        certificate.public_bytes(Encoding.PEM).decode(), identity["private_key"]
    )
    assert pointer == "/certificate"
    assert "`openssl genpkey -algorithm RSA`" in detail


# DER of the algorithms, the second with its default parameters (RFC 8017, appendix A.2)
_RSA = bytes.fromhex("06092a864886f70d0101010500")
_RSA_PSS = bytes.fromhex("06092a864886f70d01010a3000")


def test_an_encrypted_key_is_rejected_with_the_command_that_decrypts_it() -> None:
    password = BestAvailableEncryption(b"x")
    encrypted = key_pem(EC_KEY, password)
    old = EC_KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, password).decode()
    for key in (encrypted, encrypted.replace("ENCRYPTED ", ""), old):
        pointer, detail = faults(IDENTITY["certificate"], key)
        assert pointer == "/private_key"
        assert "openssl pkey" in detail


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", "must be one private key in PEM"),
        (IDENTITY["certificate"], "must be one private key in PEM"),
        (2 * IDENTITY["private_key"], "must be one private key in PEM"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "in PEM"),
        (key_pem(ed25519.Ed25519PrivateKey.generate()), "or an EC key"),
        (IDENTITY["private_key"] + "#" * MAX_PEM, "must be one private key in PEM"),
    ],
)
def test_an_unusable_key_is_rejected(key: str, words: str) -> None:
    pointer, detail = faults(IDENTITY["certificate"], key)
    assert pointer == "/private_key"
    assert words in detail


@pytest.mark.parametrize(
    ("bits", "words"), [(4608, "at most 4096 bits"), (1024, "at least 2048 bits")]
)
def test_an_rsa_key_of_an_unusable_size_is_rejected(bits: int, words: str) -> None:
    pointer, detail = faults(IDENTITY["certificate"], key_pem(rsa_key(bits)))
    assert pointer == "/private_key"
    assert words in detail


def test_a_certificate_of_an_intermediate_cannot_come_first() -> None:
    between = AUTHORITY.create_child_ca()
    identity = client_identity(between)
    leaf, intermediate = identity["certificate"].split("\n-----BEGIN", 1)
    pointer, detail = faults(f"-----BEGIN{intermediate}{leaf}\n", identity["private_key"])
    assert pointer == "/certificate"
    assert "must begin with the certificate of the private key" in detail


@pytest.mark.parametrize(
    "authorities",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        IDENTITY["private_key"],
        pem(AUTHORITY).replace("\nM", "\n$M", 1),
        pem(AUTHORITY).replace("-----END CERTIFICATE-----\n", "") + pem(AUTHORITY),
        pem(AUTHORITY).replace("END CERTIFICATE", "END X509 CERTIFICATE"),
        pem(AUTHORITY) + "-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n" * 2_000,
        base64.b64encode(b"a PKCS #12 file").decode(),
        pem(AUTHORITY) * 21,
        pem(AUTHORITY) + "#" * MAX_PEM,
    ],
)
def test_unusable_authorities_are_rejected(authorities: str) -> None:
    with pytest.raises(InvalidInput, match="must be 1 to 20 certificates in PEM") as caught:
        describe_authorities(authorities)
    assert caught.value.errors[0].pointer == "/authorities"


# -- PEM as people paste it -----------------------------------------------------------------------

_BAG = """Bag Attributes
    Microsoft Local Key set: <No Values>
    localKeyID: 01 00 00 00
    friendlyName: Zertifikat für müller
subject=CN = client
"""
SHAPES: dict[str, Callable[[str], str]] = {
    "clean": lambda text: text,
    "text before it": lambda text: f"Zertifikat für müller\n{text}",
    "a byte order mark": lambda text: f"\ufeff{text}",
    "bag attributes": lambda text: _BAG + text,
    "comments between the blocks": lambda text: text.replace("-----BEGIN", "# next\n\n-----BEGIN"),
    "text after it": lambda text: f"{text}\nThat was all.",
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "indented": lambda text: text.replace("\n", "\n    "),
    "tabs": lambda text: "\t" + text.replace("\n", "\n\t"),
    "blanks at the ends of lines": lambda text: text.replace("\n", "  \n"),
    "empty lines": lambda text: text.replace("\n", "\n\n"),
    "one line": lambda text: text.replace("\n", " "),
    "no line breaks": lambda text: text.replace("\n", ""),
    "no last line break": lambda text: text.removesuffix("\n"),
    "no-break spaces": lambda text: text.replace("\n", "\u00a0\n"),
}
CHAIN = client_identity(AUTHORITY.create_child_ca())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_pem_in_every_shape_is_stored_clean(shape: Callable[[str], str]) -> None:
    certificate, key, authorities = (
        shape(text) for text in (CHAIN["certificate"], CHAIN["private_key"], 2 * pem(AUTHORITY))
    )
    identity = TlsIdentity(certificate, key, authorities).cleaned()
    assert identity == TlsIdentity(**CHAIN, authorities=2 * pem(AUTHORITY)).cleaned()
    assert identity.certificate == CHAIN["certificate"]
    identity.shown()
    check_identity(identity)


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="-"), max_size=20), min_size=3),
    blanks=st.lists(st.sampled_from(["", " ", "\n", "\r\n", "\t", "\u2028"]), min_size=1),
)
def test_what_surrounds_and_breaks_the_blocks_has_no_meaning(
    texts: list[str], blanks: list[str]
) -> None:
    lines = CHAIN["certificate"].split("\n")
    text = texts[0]
    for number, line in enumerate(lines):
        gap = blanks[number % len(blanks)]
        text += line + (gap if not line.startswith("-----END") else texts[number % len(texts)])
    assert TlsIdentity(certificate=text).cleaned().certificate == CHAIN["certificate"]


def _der(certificate: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate)


def _block(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"


def test_other_names_of_a_certificate_are_those_that_openssl_reads() -> None:
    der = _der(pem(AUTHORITY))
    trust = bytes.fromhex("300c300a06082b06010505070301")  # `-addtrust serverAuth`
    for block in (
        _block("X509 CERTIFICATE", der),
        _block("TRUSTED CERTIFICATE", der),
        _block("TRUSTED CERTIFICATE", der + trust),
    ):
        assert TlsIdentity(authorities=block).cleaned().authorities == pem(AUTHORITY)


EC_KEY = ec.generate_private_key(ec.SECP384R1())
_PARAMETERS = "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n"


@pytest.mark.parametrize("kind", ["EC", "RSA"])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_every_form_of_a_private_key_is_stored_as_pkcs_8(kind: str, form: PrivateFormat) -> None:
    key = EC_KEY if kind == "EC" else rsa_key(4096)
    text = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    for given_text in (text, _PARAMETERS + text, pem(AUTHORITY) + text):
        assert TlsIdentity(private_key=given_text).cleaned().private_key == key_pem(key)


# -- what OpenSSL does not load -------------------------------------------------------------------


def _certificate(
    subject: str, key: rsa.RSAPrivateKey, *, issuer: str, by: rsa.RSAPrivateKey
) -> str:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        _name(issuer), _name(subject), key.public_key(), 1, now, now + timedelta(days=1)
    )
    return builder.sign(by, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def test_a_certificate_that_openssl_does_not_load_is_rejected_with_the_reason() -> None:
    weak, key = rsa_key(1024), rsa_key(2048)
    intermediate = _certificate("b", weak, issuer="a", by=key)
    by_weak = _certificate("c", key, issuer="b", by=weak) + intermediate
    for given_identity, reason in (
        (TlsIdentity(**SHA1_IDENTITY), "with SHA-256"),
        (TlsIdentity(by_weak, key_pem(key)), "an intermediate's key"),
    ):
        identity = given_identity.cleaned()
        identity.shown()
        with pytest.raises(InvalidInput, match=reason) as caught:
            check_identity(identity)
        assert caught.value.errors[0].pointer == "/certificate"
