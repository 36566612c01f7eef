"""Payload encryption, decrypted by another implementation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jwcrypto.common import json_decode
from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK

from hookfast.errors import InvalidInput
from hookfast.signing.encryption import Algorithm, Encryption, checked_jwk

POINTER = "/encryption/jwk"
RSA = JWK.generate(kty="RSA", size=2048)
P256 = JWK.generate(kty="EC", crv="P-256")
X25519 = JWK.generate(kty="OKP", crv="X25519")
PAIRS: list[tuple[JWK, Algorithm]] = [
    (RSA, "RSA-OAEP-256"),
    (P256, "ECDH-ES+A256KW"),
    (JWK.generate(kty="EC", crv="P-384"), "ECDH-ES+A256KW"),
    (JWK.generate(kty="EC", crv="P-521"), "ECDH-ES+A256KW"),
    (X25519, "ECDH-ES+A256KW"),
]


def _public(key: JWK) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(key.export_public())
    return document


@pytest.mark.parametrize(("key", "alg"), PAIRS, ids=["RSA", "P-256", "P-384", "P-521", "X25519"])
@hypothesis_settings(max_examples=20)
@given(
    body=st.binary(min_size=1, max_size=2_000)
)  # jwcrypto treats an empty plaintext as a failure
def test_the_receiver_decrypts_exactly_the_encrypted_body(
    key: JWK, alg: Algorithm, body: bytes
) -> None:
    encryption = Encryption(checked_jwk(_public(key), alg=alg, pointer=POINTER), alg=alg)
    token = JWE()
    token.deserialize(encryption.encrypt(body).decode(), key)
    assert token.payload == body
    assert {name: json_decode(token.objects["protected"])[name] for name in ("alg", "enc")} == {
        "alg": alg,
        "enc": "A256GCM",
    }


def test_the_jwe_header_names_the_content_type_and_the_key() -> None:
    jwk = checked_jwk(_public(X25519) | {"kid": "k-1"}, alg="ECDH-ES+A256KW", pointer=POINTER)
    token = JWE()
    token.deserialize(Encryption(jwk, alg="ECDH-ES+A256KW").encrypt(b"{}").decode())
    header = json_decode(token.objects["protected"])
    assert (header["cty"], header["kid"]) == ("json", "k-1")


def test_the_same_body_is_encrypted_differently_each_time() -> None:
    encryption = Encryption(_public(P256), alg="ECDH-ES+A256KW")
    assert encryption.encrypt(b"{}") != encryption.encrypt(b"{}")


def test_only_required_members_of_a_key_are_kept() -> None:
    given = _public(RSA) | {"use": "enc", "x5c": ["…"], "ext": True, "alg": "RSA-OAEP-256"}
    kept = checked_jwk(given, alg="RSA-OAEP-256", pointer=POINTER)
    assert set(kept) == {"kty", "n", "e"} | ({"kid"} & set(given))


@pytest.mark.parametrize("key", [RSA, P256, X25519], ids=["RSA", "EC", "OKP"])
def test_private_key_is_rejected_without_being_repeated(key: JWK) -> None:
    private = json.loads(key.export_private())
    alg: Algorithm = "RSA-OAEP-256" if private["kty"] == "RSA" else "ECDH-ES+A256KW"
    with pytest.raises(InvalidInput, match="private key") as caught:
        checked_jwk(private, alg=alg, pointer=POINTER)
    assert caught.value.code == "invalid_encryption"
    assert caught.value.errors[0].pointer == f"{POINTER}/d"
    assert private["d"] not in str(caught.value.errors) + caught.value.message


_SMALL = _public(JWK.generate(kty="RSA", size=1024))


@pytest.mark.parametrize(
    ("jwk", "alg", "member"),
    [
        ({}, "RSA-OAEP-256", "/kty"),
        ({"kty": "oct", "k": "AAAA"}, "RSA-OAEP-256", "/k"),
        ({"kty": "oct"}, "ECDH-ES+A256KW", "/kty"),
        ({"kty": ["RSA"]}, "RSA-OAEP-256", "/kty"),
        (_public(P256), "RSA-OAEP-256", "/kty"),
        (_public(RSA), "ECDH-ES+A256KW", "/kty"),
        (_SMALL, "RSA-OAEP-256", "/n"),
        (_public(RSA) | {"e": "Ag"}, "RSA-OAEP-256", "/e"),
        (_public(RSA) | {"e": "AQ"}, "RSA-OAEP-256", "/e"),
        (_public(RSA) | {"n": "!"}, "RSA-OAEP-256", "/n"),
        (_public(RSA) | {"n": 5}, "RSA-OAEP-256", "/n"),
        (_public(RSA) | {"n": "A" * 20_000}, "RSA-OAEP-256", "/n"),
        (_public(RSA) | {"use": "sig"}, "RSA-OAEP-256", "/use"),
        (_public(RSA) | {"alg": "RSA-OAEP"}, "RSA-OAEP-256", "/alg"),
        (_public(RSA) | {"kid": ""}, "RSA-OAEP-256", "/kid"),
        (_public(RSA) | {"kid": 5}, "RSA-OAEP-256", "/kid"),
        (_public(P256) | {"crv": "secp256k1"}, "ECDH-ES+A256KW", "/crv"),
        (_public(P256) | {"crv": "P-384"}, "ECDH-ES+A256KW", ""),
        (_public(P256) | {"y": _public(P256)["x"]}, "ECDH-ES+A256KW", ""),
        (_public(P256) | {"x": "ü"}, "ECDH-ES+A256KW", ""),
        (_public(X25519) | {"crv": "Ed25519"}, "ECDH-ES+A256KW", "/crv"),
        (_public(X25519) | {"x": "AAAA"}, "ECDH-ES+A256KW", ""),
        (_public(X25519) | {"x": "A" * 43}, "ECDH-ES+A256KW", ""),  # a point of small order
    ],
)
def test_unusable_key_is_rejected_at_the_wrong_member(
    jwk: dict[str, Any], alg: Algorithm, member: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_jwk(jwk, alg=alg, pointer=POINTER)
    assert caught.value.code == "invalid_encryption"
    assert [error.pointer for error in caught.value.errors] == [POINTER + member]
