"""Asymmetric keys: text formats, JWKs and thumbprints, compared with jwcrypto."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwcrypto.jwk import JWK

from hookfast.errors import Misconfigured
from hookfast.signing.keys import (
    ed25519_jwk,
    ed25519_key,
    generate_ed25519,
    public_key_text,
    rsa_jwk,
    rsa_signer,
    thumbprint,
)
from tests.support.rsa_keys import shared_signer


def test_the_thumbprint_is_that_of_rfc_8037() -> None:
    # RFC 8037, appendix A.3
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert thumbprint(jwk) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_ed25519_key_text_has_seed_and_public_key() -> None:
    text = generate_ed25519()
    raw = base64.b64decode(text.removeprefix("whsk_"))
    key = ed25519_key(text)
    assert raw == key.private_bytes_raw() + key.public_key().public_bytes_raw()
    assert base64.b64decode(public_key_text(key).removeprefix("whpk_")) == raw[32:]
    assert text != generate_ed25519()


def test_a_seed_alone_is_accepted_as_a_key() -> None:
    seed = bytes(range(32))
    key = ed25519_key("whsk_" + base64.b64encode(seed).decode())
    assert key.private_bytes_raw() == seed


@pytest.mark.parametrize("text", ["", "whsk_", "whsk_AAAA", "whpk_" + "A" * 43 + "=", "whsk_ü"])
def test_damaged_key_is_rejected_without_being_shown(text: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        ed25519_key(text)
    assert not text or text not in caught.value.message


def test_jwks_are_public_and_their_ids_match_another_implementation() -> None:
    ed25519 = ed25519_jwk(public_key_text(Ed25519PrivateKey.generate()))
    rsa = rsa_jwk(shared_signer().key)
    for jwk, alg in ((ed25519, "EdDSA"), (rsa, "RS256")):
        theirs = JWK(**jwk)
        assert not theirs.has_private
        assert theirs.thumbprint() == jwk["kid"]
        assert (jwk["use"], jwk["alg"]) == ("sig", alg)
        assert set(jwk) <= {"kty", "crv", "x", "n", "e", "kid", "use", "alg"}


@pytest.mark.parametrize("text", ["", "whsk_AAAA", "whpk_AAAA", "whpk_!"])
def test_other_text_than_a_public_key_has_no_jwk(text: str) -> None:
    with pytest.raises(ValueError, match="not an ed25519 public key"):
        ed25519_jwk(text)


def test_rsa_key_has_3072_bits_and_loads_from_its_pem() -> None:
    signer = shared_signer()
    assert signer.key.key_size == 3072
    assert signer.kid == rsa_jwk(signer.key)["kid"]
    with pytest.raises(Misconfigured):
        rsa_signer("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
