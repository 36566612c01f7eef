"""Signatures: hand-written vectors, a third-party verifier, and properties."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st
from jwcrypto.jwk import JWK
from standardwebhooks import Webhook, WebhookVerificationError

from hookfast.errors import InvalidInput
from hookfast.signing.keys import ed25519_key, generate_ed25519, rsa_jwk
from hookfast.signing.signature import (
    DEFAULT_PROFILES,
    HashName,
    Profile,
    generate_secret,
    merged_headers,
    new_nonce,
    parse_profiles,
    secret_key,
    sign,
)
from tests.support.rsa_keys import shared_signer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = secret_key(SECRET)
OLD_KEY = b"o" * 32
BODY = b'{"test": 2432232314}'
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIME = 1614265330
NONCE = "0123456789abcdef0123456789abcdef"
ED25519 = ed25519_key(generate_ed25519())

keys = st.lists(st.binary(min_size=24, max_size=64), min_size=1, max_size=3, unique=True)
bodies = st.binary(max_size=200)
times = st.integers(min_value=0, max_value=2**33)


def signed(profile: Profile, keys: Sequence[bytes] = (KEY,), **changes: Any) -> dict[str, str]:
    given = {"message_id": ID, "timestamp": TIME, "body": BODY, "nonce": NONCE}
    given |= {"ed25519": [ED25519], "rsa": shared_signer()}
    return sign(profile, keys=keys, **(given | changes))


def test_standard_matches_the_published_vector() -> None:
    # the example of the Standard Webhooks documentation
    assert signed(Profile.STANDARD) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("hash_name", "signature"),
    [
        # printf '1614265330.{"test": 2432232314}' | openssl dgst -<hash> -mac HMAC -macopt hexkey:…
        (HashName.SHA1, "sha1=eb620eadccdc10a5c5939b35101f08c3a9d4539b"),
        (
            HashName.SHA256,
            "sha256=e96203c6de850e7dc1fde7489ef6140b402d3a5a64fe250cd2eef9830fac1cef",
        ),
        (
            HashName.SHA512,
            "sha512=ec1b938365c2b40ea236c418f54711207294293a72c8dbb675f62c85ccda9221cad1d28032acf8e9ac9ab95febb538445b32d320971afa963243a88a3564a8d0",
        ),
    ],
)
def test_hook_matches_the_vector_of_each_hash(hash_name: HashName, signature: str) -> None:
    assert signed(Profile.HOOK, hash_name=hash_name) == {
        "X-Hook-Signature": signature,
        "X-Hook-Timestamp": "1614265330",
    }


def test_standard_uses_sha256_even_if_the_endpoint_has_another_hash() -> None:
    assert signed(Profile.STANDARD, hash_name=HashName.SHA512) == signed(Profile.STANDARD)


def test_both_keys_sign_newest_first_during_a_rotation() -> None:
    for profile, header, separator in (
        (Profile.HOOK, "X-Hook-Signature", ","),
        (Profile.STANDARD, "webhook-signature", " "),
    ):
        alone = [signed(profile, [key])[header] for key in (KEY, OLD_KEY)]
        assert signed(profile, [KEY, OLD_KEY])[header] == separator.join(alone)


@pytest.mark.parametrize("secret", [SECRET, "whsec_" + base64.b64encode(OLD_KEY).decode()])
def test_a_receiver_with_either_secret_verifies_during_a_rotation(secret: str) -> None:
    headers = signed(Profile.STANDARD, [KEY, OLD_KEY], timestamp=int(time.time()))
    assert Webhook(secret).verify(BODY, headers) == {"test": 2432232314}


@given(text=st.text(max_size=200), key=st.binary(min_size=24, max_size=64))
def test_the_reference_verifier_accepts_whatever_issigned(text: str, key: bytes) -> None:
    body = text.encode()
    headers = signed(Profile.STANDARD, [key], timestamp=int(time.time()), body=body)
    Webhook(key).verify(body, headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(key).verify(body + b" ", headers, json_parse=False)


@given(keys=keys, body=bodies, timestamp=times, hash_name=st.sampled_from(HashName), other=bodies)
def test_hook_signature_matches_its_definition(
    keys: list[bytes], body: bytes, timestamp: int, hash_name: HashName, other: bytes
) -> None:
    headers = signed(Profile.HOOK, keys, timestamp=timestamp, body=body, hash_name=hash_name)
    signatures = headers["X-Hook-Signature"].split(",")
    prefix = headers["X-Hook-Timestamp"].encode() + b"."
    for key, signature in zip(keys, signatures, strict=True):
        name, _, digest = signature.partition("=")
        assert name == hash_name.value
        assert digest == hmac.new(key, prefix + body, getattr(hashlib, name)).hexdigest()
        forged = hmac.new(key, prefix + other, getattr(hashlib, name)).hexdigest()
        assert (digest == forged) is (body == other)


@pytest.mark.parametrize("profile", Profile)
def test_every_header_is_visible_ascii(profile: Profile) -> None:
    headers = signed(profile, [KEY, OLD_KEY])
    for name, value in headers.items():
        assert (name + value).replace(" ", "").isascii()
        assert (name + value).isprintable()


@pytest.mark.parametrize("profile", Profile)
def test_signing_without_a_key_raises(profile: Profile) -> None:
    with pytest.raises(ValueError, match="without a key"):
        sign(profile, keys=[], message_id=ID, timestamp=TIME, body=BODY, nonce=NONCE)


def test_signing_with_nonce_without_a_nonce_raises() -> None:
    with pytest.raises(ValueError, match="needs a nonce"):
        sign(Profile.NONCE, keys=[KEY], message_id=ID, timestamp=TIME, body=BODY)


def test_standard_ed25519_matches_the_standard_and_rfc_8032() -> None:
    # RFC 8032, section 7.1, test 1: the secret key and its public key
    key = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    headers = signed(Profile.STANDARD_ED25519, [], ed25519=[key])
    assert headers["webhook-id"] == ID
    version, _, signature = headers["webhook-signature"].partition(",")
    assert version == "v1a"
    message = f"{ID}.{TIME}.".encode() + BODY
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
        base64.b64decode(signature), message
    )


def test_both_standard_profiles_list_their_signatures_in_one_header() -> None:
    both = merged_headers(
        signed(profile, [KEY, OLD_KEY]) for profile in (Profile.STANDARD, Profile.STANDARD_ED25519)
    )
    versions = [one.partition(",")[0] for one in both["webhook-signature"].split(" ")]
    assert versions == ["v1", "v1", "v1a"]
    now = int(time.time())
    fresh = merged_headers(
        signed(profile, [KEY], timestamp=now)
        for profile in (Profile.STANDARD_ED25519, Profile.STANDARD)
    )
    assert Webhook(SECRET).verify(BODY, fresh) == {"test": 2432232314}


@given(keys=keys, body=bodies, timestamp=times, other=bodies)
def test_nonce_and_body_signatures_match_their_definitions(
    keys: list[bytes], body: bytes, timestamp: int, other: bytes
) -> None:
    for profile, before in (
        (Profile.NONCE, f"{timestamp}.{NONCE}.".encode()),
        (Profile.BODY, b""),
    ):
        headers = signed(profile, keys, timestamp=timestamp, body=body)
        signatures = headers["X-Webhook-Signature"].split(",")
        for key, signature in zip(keys, signatures, strict=True):
            right = hmac.new(key, before + body, hashlib.sha256).hexdigest()
            assert signature == f"sha256={right}"
            forged = hmac.new(key, before + other, hashlib.sha256).hexdigest()
            assert (right == forged) is (body == other)


def test_nonce_and_body_send_their_other_headers() -> None:
    nonce = signed(Profile.NONCE, attempt=3)
    del nonce["X-Webhook-Signature"]
    assert nonce == {
        "X-Webhook-Timestamp": str(TIME),
        "X-Webhook-Nonce": NONCE,
        "X-Webhook-Attempt": "3",
        "X-Webhook-ID": ID,
    }
    body = signed(Profile.BODY, event_type="order.invoice.paid")
    del body["X-Webhook-Signature"]
    assert body == {"X-Webhook-Id": ID, "X-Webhook-Event": "order.invoice.paid"}


def test_nonces_are_128_random_bits() -> None:
    first, second = new_nonce(), new_nonce()
    assert first != second
    assert len(bytes.fromhex(first)) == 16


@given(body=bodies, timestamp=times)
def test_rsa_signature_verifies_with_the_named_public_key(body: bytes, timestamp: int) -> None:
    headers = signed(Profile.RSA, [], timestamp=timestamp, body=body)
    jwk = rsa_jwk(shared_signer().key)
    assert headers["X-Webhook-Key-Id"] == jwk["kid"]
    scheme, _, signature = headers["X-Webhook-Signature"].partition("=")
    assert scheme == "rsa-sha256"
    message = headers["X-Webhook-Timestamp"].encode() + b"." + body
    public = JWK(**jwk).get_op_key("verify")
    public.verify(base64.b64decode(signature), message, PKCS1v15(), SHA256())
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(signature), message + b" ", PKCS1v15(), SHA256())


@pytest.mark.parametrize(
    "names", [("nonce", "body"), ("rsa", "nonce"), ("body", "rsa"), ("rsa", "body")]
)
def test_profiles_that_need_the_same_header_are_rejected_by_name(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput, match=f"{names[0]} and {names[1]}") as caught:
        parse_profiles(["hook", *names])
    assert [error.pointer for error in caught.value.errors] == ["/signatures/2"]


@pytest.mark.parametrize("last", ["nonce", "body", "rsa"])
def test_every_other_combination_is_allowed(last: str) -> None:
    names = ["hook", "standard", "standard-ed25519", last]
    assert [profile.value for profile in parse_profiles(names)] == names


def test_a_generated_secret_holds_32_random_bytes() -> None:
    first, second = generate_secret(), generate_secret()
    assert first.startswith("whsec_")
    assert len(secret_key(first)) == 32
    assert first != second


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_secret_of_24_to_64_bytes_is_its_key(size: int) -> None:
    key = bytes(range(size))
    assert secret_key("whsec_" + base64.b64encode(key).decode()) == key


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",  # no prefix
        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_" + base64.b64encode(bytes(32)).decode().rstrip("="),  # no padding
        "whsec_" + base64.urlsafe_b64encode(b"\xff" * 32).decode(),  # the other alphabet
        "whsec_MfKQ9r8GKYqrTwjU PD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        "whsec_ключключключключключключключключ",
        "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ],
)
def test_malformed_secret_is_rejected_without_being_shown(secret: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        secret_key(secret)
    assert caught.value.code == "invalid_secret"
    assert not secret or len(secret) < 8 or secret[6:] not in caught.value.message
    assert caught.value.__cause__ is None


def test_the_default_profiles_serve_old_and_new_receivers() -> None:
    assert DEFAULT_PROFILES == (Profile.HOOK, Profile.STANDARD)


def test_profiles_are_parsed_in_their_order() -> None:
    assert parse_profiles(["standard", "hook"]) == (Profile.STANDARD, Profile.HOOK)


@pytest.mark.parametrize(
    ("names", "pointer"),
    [
        ([], "/signatures"),
        (["hook", "hook"], "/signatures/1"),
        (["hook", "md5"], "/signatures/1"),
        (["Hook"], "/signatures/0"),
        ([""], "/signatures/0"),
    ],
)
def test_a_wrong_list_of_profiles_is_rejected_at_the_wrong_entry(
    names: list[str], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_profiles(names)
    assert caught.value.code == "invalid_signatures"
    assert [error.pointer for error in caught.value.errors] == [pointer]
