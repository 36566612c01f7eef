"""Signatures that public keys verify, and key sets."""

from __future__ import annotations

import base64

import pytest

from hookfast import receiver
from hookfast.receiver import Misconfigured, UnknownKey, Verifier, WrongSignature
from tests.unit.receiver.signing import BODY, ED25519, KEY_ID, NOW, jwks, signed
from tests.unit.receiver.verifying import verifier


def test_ed25519_key_in_the_format_of_standard_webhooks_is_accepted() -> None:
    public = "whpk_" + base64.b64encode(ED25519.public_key().public_bytes_raw()).decode()
    keys = receiver.KeySet.from_public_keys(public)
    Verifier(public_keys=keys, clock=lambda: NOW).verify(signed("standard-ed25519"), BODY)


@pytest.mark.parametrize("signature", ["A" * 341 + "B==", "A" * 343, "A" * 342 + "= =", "AAAA", ""])
def test_malformed_rsa_signature_is_rejected(signature: str) -> None:
    headers = signed("rsa") | {"X-Webhook-Signature": f"rsa-sha256={signature}"}
    with pytest.raises(WrongSignature):
        verifier(["rsa"]).verify(headers, BODY)


def test_rsa_signature_in_another_base64_spelling_is_rejected() -> None:
    headers = signed("rsa")
    value = headers["X-Webhook-Signature"]
    assert value.endswith("==")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(value[-3]) + 1]  # differs in bits that base64 does not use
    headers["X-Webhook-Signature"] = value[:-3] + last + "=="
    assert base64.b64decode(headers["X-Webhook-Signature"][11:]) == base64.b64decode(value[11:])
    with pytest.raises(WrongSignature):
        verifier(["rsa"]).verify(headers, BODY)


def test_unknown_key_id_has_its_own_error() -> None:
    with pytest.raises(UnknownKey, match="key directory"):
        verifier(["rsa"]).verify(signed("rsa") | {"X-Webhook-Key-Id": "other"}, BODY)


def test_several_key_ids_are_accepted_during_a_rotation() -> None:
    headers = signed("rsa")
    headers["X-Webhook-Signature"] += ", rsa-sha256=AAAA"
    verifier(["rsa"]).verify(headers | {"X-Webhook-Key-Id": f"other, {KEY_ID}"}, BODY)


def test_rsa_signature_by_another_key_is_rejected() -> None:
    headers = signed("rsa") | {"X-Webhook-Signature": "rsa-sha256=" + "A" * 344}
    with pytest.raises(WrongSignature):
        verifier(["rsa"]).verify(headers, BODY)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "JWK Set"),
        (b'{"keys": 1}', "JWK Set"),
        (b'{"keys": [1]}', "JWK Set"),
        (b'{"keys": []}', "at least one key"),
        (b'{"keys": [{"kty": "oct", "k": "AA"}]}', "at least one key"),
        (b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}', "32 bytes"),
        (b'{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "!"}]}', "usable `x`"),
        (b'{"keys": [{"kty": "OKP", "crv": "Ed25519"}]}', "usable `x`"),
        (jwks(kid=None), "`kid`"),
        (jwks(n="AQAB"), "2048 to 8192 bits"),
        (jwks(e="Ag"), "invalid modulus"),
        (jwks(n="A" * 2000), "2048 to 8192 bits"),
    ],
)
def test_invalid_key_set_is_rejected(document: bytes, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        receiver.KeySet.from_jwks(document)


def test_keys_for_other_uses_are_ignored() -> None:
    keys = receiver.KeySet.from_jwks(jwks(use="enc"))
    assert keys.rsa(KEY_ID) is None
    assert len(keys.ed25519()) == 1
    assert receiver.KeySet.from_jwks(jwks(alg="PS256")).rsa(KEY_ID) is None
