"""Properties: any change to a signed request, and any junk, is rejected."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.receiver import VerificationError, Verifier
from tests.unit.receiver.signing import (
    ALL,
    BODY,
    BY_SECRET,
    KEY,
    NOW,
    OLD_KEY,
    OLD_SECRET,
    SECRET,
    key_set,
    signed,
)
from tests.unit.receiver.verifying import verifier

SIGNED_HEADERS = {
    "rsa": ("X-Webhook-Signature", "X-Webhook-Timestamp", "X-Webhook-Key-Id"),
    "standard-ed25519": ("webhook-signature", "webhook-timestamp", "webhook-id"),
    "standard": ("webhook-signature", "webhook-timestamp", "webhook-id"),
    "nonce": ("X-Webhook-Signature", "X-Webhook-Timestamp", "X-Webhook-Nonce"),
    "hook": ("X-Hook-Signature", "X-Hook-Timestamp"),
    "body": ("X-Webhook-Signature",),
}
profiles = st.sampled_from(ALL)


@given(profile=profiles, place=st.integers(0, len(BODY) - 1), bits=st.integers(1, 255))
def test_a_body_with_one_changed_byte_is_rejected(profile: str, place: int, bits: int) -> None:
    body = bytearray(BODY)
    body[place] ^= bits
    with pytest.raises(VerificationError):
        verifier([profile]).verify(signed(profile), bytes(body))


@given(profile=profiles, body=st.binary(max_size=300), other=st.binary(max_size=300))
def test_only_the_signed_body_is_accepted(profile: str, body: bytes, other: bytes) -> None:
    headers = signed(profile, body=body)
    verifier([profile]).verify(headers, body)
    if other != body:
        with pytest.raises(VerificationError):
            verifier([profile]).verify(headers, other)


@given(profile=profiles, data=st.data())
def test_a_signed_header_with_one_changed_character_is_rejected(
    profile: str, data: st.DataObject
) -> None:
    headers = signed(profile)
    name = data.draw(st.sampled_from(SIGNED_HEADERS[profile]))
    value = headers[name]
    place = data.draw(st.integers(0, len(value) - 1))
    changed = data.draw(st.characters(codec="latin-1").filter(lambda c: c != value[place]))
    headers[name] = value[:place] + changed + value[place + 1 :]
    if headers[name].strip(" \t") == value:
        return
    with pytest.raises(VerificationError):
        verifier([profile]).verify(headers, BODY)


@given(
    profile=st.sampled_from(BY_SECRET),
    order=st.permutations([KEY, OLD_KEY, b"a" * 32, b"b" * 32]),
    secrets=st.permutations([SECRET, OLD_SECRET]),
)
def test_the_order_of_signatures_and_secrets_does_not_matter(
    profile: str, order: list[bytes], secrets: list[str]
) -> None:
    checked = Verifier(secrets, profiles=[profile], clock=lambda: NOW)  # type: ignore[list-item]
    assert checked.verify(signed(profile, keys=order), BODY).profile == profile


anything = st.text() | st.text(st.characters(codec="latin-1")) | st.binary()


@given(
    profile=profiles,
    junk=st.dictionaries(
        st.sampled_from(
            [
                *sorted({name for names in SIGNED_HEADERS.values() for name in names}),
                *("X-Hook-Id", "X-Hook-Topic", "X-Hook-Attempt", "X-Webhook-ID", "webhook-"),
            ]
        )
        | anything,
        anything | st.none() | st.integers(),
    ),
    drop=st.sets(st.sampled_from(sorted(SIGNED_HEADERS["nonce"] + SIGNED_HEADERS["standard"]))),
    body=st.sampled_from([BODY, b"", b"\xff"]),
)
def test_junk_in_headers_raises_nothing_but_a_verification_error(
    profile: str, junk: dict[str, str], drop: set[str], body: bytes
) -> None:
    headers = {name: value for name, value in signed(profile).items() if name not in drop} | junk
    checked = Verifier([SECRET], public_keys=key_set(), profiles=ALL, clock=lambda: NOW)
    with contextlib.suppress(VerificationError):
        checked.verify(headers, body)
        assert body == BODY  # the signed body verified, so the junk was elsewhere


@given(extra=st.dictionaries(st.text(min_size=1), st.text()))
def test_unrelated_headers_are_ignored(extra: dict[str, str]) -> None:
    foreign = {
        name: value
        for name, value in extra.items()
        if not name.lower().startswith(("x-hook-", "x-webhook-", "webhook-"))
    }
    verifier("standard").verify(foreign | signed("standard"), BODY)
