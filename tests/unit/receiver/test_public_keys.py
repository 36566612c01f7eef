"""Signatures that public keys verify, and the sets such keys come in."""

from __future__ import annotations

import base64

import pytest

from hookfast import receiver
from hookfast.receiver import Misconfigured, UnknownKey, Verifier, WrongSignature
from tests.unit.receiver.signing import BODY, ED25519, KEY_ID, NOW, jwks, signed
from tests.unit.receiver.verifying import verifier


def test_an_ed25519_key_may_be_given_as_standard_webhooks_writes_it() -> None:
    public = "whpk_" + base64.b64encode(ED25519.public_key().public_bytes_raw()).decode()
    keys = receiver.KeySet.from_public_keys(public)
    Verifier(public_keys=keys, clock=lambda: NOW).verify(signed("standard-ed25519"), BODY)


@pytest.mark.parametrize("signature", ["A" * 341 + "B==", "A" * 343, "A" * 342 + "= =", "AAAA", ""])
def test_an_rsa_signature_is_read_only_as_it_is_written(signature: str) -> None:
    headers = signed("rsa") | {"X-Webhook-Signature": f"rsa-sha256={signature}"}
    with pytest.raises(WrongSignature):
        verifier(["rsa"]).verify(headers, BODY)


def test_the_same_rsa_signature_in_another_spelling_is_refused() -> None:
    headers = signed("rsa")
    value = headers["X-Webhook-Signature"]
    assert value.endswith("==")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet[alphabet.index(value[-3]) + 1]  # differs in bits that base64 does not use
    headers["X-Webhook-Signature"] = value[:-3] + last + "=="
    assert base64.b64decode(headers["X-Webhook-Signature"][11:]) == base64.b64decode(value[11:])
    with pytest.raises(WrongSignature):
        verifier(["rsa"]).verify(headers, BODY)


def test_an_unknown_key_id_is_told_apart() -> None:
    with pytest.raises(UnknownKey, match="key directory"):
        verifier(["rsa"]).verify(signed("rsa") | {"X-Webhook-Key-Id": "other"}, BODY)


def test_while_a_public_key_is_rotated_several_are_named() -> None:
    headers = signed("rsa")
    headers["X-Webhook-Signature"] += ", rsa-sha256=AAAA"
    verifier(["rsa"]).verify(headers | {"X-Webhook-Key-Id": f"other, {KEY_ID}"}, BODY)


def test_an_rsa_signature_of_another_key_is_wrong() -> None:
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
def test_a_broken_key_set_is_refused(document: bytes, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        receiver.KeySet.from_jwks(document)


def test_keys_for_other_uses_are_passed_over() -> None:
    keys = receiver.KeySet.from_jwks(jwks(use="enc"))
    assert keys.rsa(KEY_ID) is None
    assert len(keys.ed25519()) == 1
    assert receiver.KeySet.from_jwks(jwks(alg="PS256")).rsa(KEY_ID) is None
