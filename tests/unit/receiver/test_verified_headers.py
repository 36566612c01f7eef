"""The verifier's input: headers that are missing, malformed or repeated, and bodies of bytes."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from hookfast.receiver import MalformedHeader, MissingHeader, ProfileNotAccepted
from tests.unit.receiver.signing import BODY, ID, signed
from tests.unit.receiver.verifying import verifier


@pytest.mark.parametrize(
    ("profile", "header"),
    [
        ("standard", "webhook-id"),
        ("standard", "webhook-timestamp"),
        ("standard", "webhook-signature"),
        ("standard-ed25519", "webhook-signature"),
        ("hook", "X-Hook-Id"),
        ("hook", "X-Hook-Timestamp"),
        ("hook", "X-Hook-Signature"),
        ("nonce", "X-Webhook-Timestamp"),
        ("rsa", "X-Webhook-Timestamp"),
        ("rsa", "X-Webhook-Key-Id"),
        ("rsa", "X-Webhook-Signature"),
        ("body", "X-Webhook-Signature"),
    ],
)
def test_a_missing_header_is_named(profile: str, header: str) -> None:
    headers = signed(profile)
    del headers[header]
    with pytest.raises(MissingHeader, match=header) as raised:
        verifier([profile]).verify(headers, BODY)
    assert raised.value.header == header


def test_a_nonce_request_without_its_nonce_is_rejected() -> None:
    headers = signed("nonce")
    del headers["X-Webhook-Nonce"]
    with pytest.raises(ProfileNotAccepted):
        verifier(["nonce"]).verify(headers, BODY)


@pytest.mark.parametrize(
    ("profile", "header", "value"),
    [
        ("hook", "X-Hook-Timestamp", "+1700000000"),
        ("hook", "X-Hook-Timestamp", "1_700_000_000"),
        ("hook", "X-Hook-Timestamp", "-1"),
        ("hook", "X-Hook-Timestamp", "1" * 12),
        ("hook", "X-Hook-Timestamp", "1700000000.5"),
        ("hook", "X-Hook-Timestamp", "١٧٠٠٠٠٠٠٠٠"),
        ("hook", "X-Hook-Timestamp", ""),
        ("hook", "X-Hook-Signature", "sha256=\u00e9"),
        ("hook", "X-Hook-Signature", ",".join(["sha256=0"] * 17)),
        ("hook", "X-Hook-Signature", "a" * 20_000),
        ("hook", "X-Hook-Attempt", "three"),
        ("standard", "webhook-id", "dlv_1.1700000000"),
        ("nonce", "X-Webhook-Nonce", "short"),
        ("nonce", "X-Webhook-Nonce", 'nonce.{"id":1}'),
    ],
)
def test_a_header_value_that_hookfast_never_sends_is_rejected(
    profile: str, header: str, value: str
) -> None:
    with pytest.raises(MalformedHeader) as raised:
        verifier([profile]).verify(signed(profile) | {header: value}, BODY)
    assert raised.value.header == header


def test_header_names_ignore_case_and_may_be_bytes() -> None:
    headers = {name.upper().encode(): value.encode() for name, value in signed("standard").items()}
    verifier(["standard"]).verify(headers, BODY)  # type: ignore[arg-type]


def test_a_repeated_header_is_rejected_unless_its_values_are_equal() -> None:
    class Repeated(UserDict[str, str]):
        def items(self) -> Any:
            return [*signed("hook").items(), *self.data.items()]

    verifier(["hook"]).verify(Repeated({"x-hook-id": ID}), BODY)
    with pytest.raises(MalformedHeader, match="repeated with different values"):
        verifier(["hook"]).verify(Repeated({"x-hook-id": "dlv_other"}), BODY)


@pytest.mark.parametrize("body", [BODY.decode(), None, {"id": 1}])
def test_a_body_that_is_not_bytes_raises_type_error(body: Any) -> None:
    with pytest.raises(TypeError, match="raw bytes"):
        verifier().verify(signed("standard"), body)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_bytearray_and_memoryview_bodies_are_accepted(kind: Any) -> None:
    verifier().verify(signed("standard"), kind(BODY))
