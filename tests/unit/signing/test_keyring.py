"""Secrets at rest: a sealed secret opens only with its key and in its context."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import Misconfigured
from hookfast.signing.keyring import Keyring, decode_key, encode_key, parse_keys

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@given(secret=st.text(st.characters(codec="utf-8")), context=st.text(st.characters(codec="utf-8")))
def test_a_sealed_secret_can_be_opened(secret: str, context: str) -> None:
    ring = Keyring([NEW])
    assert ring.open(ring.seal(secret, context=context), context=context) == secret


def test_the_newest_key_seals_and_every_key_opens() -> None:
    sealed_before = Keyring([OLD]).seal(SECRET, context="ep_1")
    ring = Keyring([NEW, OLD])
    assert ring.open(sealed_before, context="ep_1") == SECRET
    sealed_after = ring.seal(SECRET, context="ep_1")
    assert Keyring([NEW]).open(sealed_after, context="ep_1") == SECRET


def test_sealing_twice_gives_different_texts_without_the_secret() -> None:
    ring = Keyring([NEW])
    first, second = (ring.seal(SECRET, context="ep_1") for _ in range(2))
    assert first != second
    assert SECRET.encode() not in base64.b64decode(first)


def test_the_error_says_what_to_do_when_no_key_opens_a_secret() -> None:
    sealed = Keyring([OLD]).seal(SECRET, context="ep_1")
    with pytest.raises(Misconfigured, match=r"HOOKFAST_ENCRYPTION_KEYS.*ep_1.*append the key"):
        Keyring([NEW]).open(sealed, context="ep_1")


def test_a_sealed_secret_does_not_open_in_another_row() -> None:
    ring = Keyring([NEW])
    sealed = ring.seal(SECRET, context="ep_1")
    with pytest.raises(Misconfigured, match="ep_2 was altered or encrypted for another row"):
        ring.open(sealed, context="ep_2")


@given(data=st.data())
def test_a_changed_byte_is_never_accepted(data: st.DataObject) -> None:
    ring = Keyring([NEW])
    raw = bytearray(base64.b64decode(ring.seal(SECRET, context="ep_1")))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Misconfigured):
        ring.open(base64.b64encode(raw).decode(), context="ep_1")


@pytest.mark.parametrize(
    "sealed", ["", "AAAA", "not base64", "é", base64.b64encode(bytes(35)).decode()]
)
def test_text_that_was_never_sealed_is_rejected(sealed: str) -> None:
    with pytest.raises(Misconfigured, match="altered"):
        Keyring([NEW]).open(sealed, context="ep_1")


def test_the_keyring_never_shows_its_keys() -> None:
    ring = Keyring([NEW, OLD])
    assert repr(ring) == str(ring) == "Keyring(…)"
    assert not hasattr(ring, "__dict__")


@pytest.mark.parametrize("keys", [[], [b"short"], [NEW, b"x" * 33]])
def test_a_keyring_without_usable_keys_is_rejected(keys: list[bytes]) -> None:
    with pytest.raises(Misconfigured, match="HOOKFAST_ENCRYPTION_KEYS"):
        Keyring(keys)


def test_keys_are_parsed_in_order_and_white_space_is_ignored() -> None:
    assert parse_keys(f" {encode_key(NEW)} ,\n{encode_key(OLD)}\n") == (NEW, OLD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "key 1 has 0 bytes instead of 32"),
        (encode_key(NEW) + ",", "key 2 has 0 bytes"),
        (encode_key(NEW) + ",c2hvcnQ=", "key 2 has 5 bytes"),
        ("!" * 44, "key 1 is not base64"),
        ("é" * 44, "key 1 is not base64"),
        (encode_key(NEW).rstrip("="), "key 1 is not base64"),
    ],
)
def test_a_wrong_key_is_named_only_by_its_position(text: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=f"HOOKFAST_ENCRYPTION_KEYS: {message}") as caught:
        parse_keys(text)
    assert "openssl rand -base64 32" in caught.value.message
    assert "c2hvcnQ" not in caught.value.message
    assert caught.value.__cause__ is None


@given(key=st.binary(min_size=32, max_size=32))
def test_an_encoded_key_decodes_to_itself(key: bytes) -> None:
    assert decode_key(encode_key(key)) == key
