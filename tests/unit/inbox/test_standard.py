"""Standard Webhooks, against the specification's vector and its Python library."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from hookfast.errors import InvalidInput
from hookfast.inbox import RequestRejected, provider
from tests.unit.inbox.requests import ACCEPTED, NOW, TIME, at, b64, outcome, received

STANDARD = provider("standard")

# https://github.com/standard-webhooks/standard-webhooks: libraries/python/tests/test_webhooks.py
DOCS_SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DOCS_TIME = 1614265330
DOCS_NOW = datetime.fromtimestamp(DOCS_TIME, UTC)
DOCS_BODY = b'{"test": 2432232314}'
DOCS_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
DOCS = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(DOCS_TIME),
    "webhook-signature": DOCS_SIGNATURE,
}

SECRET = "whsec_" + b64(b"s" * 32)
BODY = b'{"type":"user.created"}'
ED25519 = Ed25519PrivateKey.from_private_bytes(b"e" * 32)
PUBLIC = "whpk_" + b64(ED25519.public_key().public_bytes_raw())


def signed(secret: str = SECRET, *, body: bytes = BODY, name: str = "webhook") -> dict[str, str]:
    return {
        f"{name}-id": "msg_1",
        f"{name}-timestamp": str(TIME),
        f"{name}-signature": Webhook(secret).sign("msg_1", NOW, body.decode()),
    }


def ed25519(body: bytes = BODY) -> dict[str, str]:
    signature = ED25519.sign(f"msg_1.{TIME}.".encode() + body)
    return signed() | {"webhook-signature": f"v1a,{b64(signature)}"}


@pytest.mark.parametrize("secret", [DOCS_SECRET, f"whsec_{DOCS_SECRET}"])
def test_the_vector_is_accepted_with_the_prefix_and_without(secret: str) -> None:
    assert outcome(STANDARD, received(DOCS, DOCS_BODY), secret, now=DOCS_NOW) == ACCEPTED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ACCEPTED),
        ({"webhook-timestamp": "hello"}, "timestamp_malformed"),
        ({"webhook-timestamp": f"+{DOCS_TIME}"}, "timestamp_malformed"),
        ({"webhook-id": "msg_other"}, "signature_mismatch"),
        ({"webhook-id": "msg_with.dot"}, "signature_malformed"),
        ({"webhook-timestamp": str(DOCS_TIME - 1)}, "signature_mismatch"),
        (
            {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="},
            "signature_mismatch",
        ),
        ({"webhook-signature": DOCS_SIGNATURE.rstrip("=")}, "signature_mismatch"),
        ({"webhook-signature": DOCS_SIGNATURE.replace("v1", "V1")}, "signature_not_accepted"),
        ({"webhook-signature": DOCS_SIGNATURE.replace("v1", "v2")}, "signature_not_accepted"),
        ({"webhook-signature": DOCS_SIGNATURE.replace("v1", "v1a")}, "signature_not_accepted"),
        ({"webhook-signature": DOCS_SIGNATURE.removeprefix("v1,")}, "signature_not_accepted"),
        (
            {"webhook-signature": f"v1,{'A' * 43}= v2,x {DOCS_SIGNATURE} v1,{'B' * 43}="},
            ACCEPTED,
        ),
    ],
)
def test_a_changed_request_is_rejected(changes: dict[str, str], code: str) -> None:
    request = received(DOCS | changes, DOCS_BODY)
    assert outcome(STANDARD, request, DOCS_SECRET, now=DOCS_NOW) == code


def test_the_error_says_by_how_many_seconds_the_time_differs() -> None:
    for seconds in (400.658262, -400.658262):
        with pytest.raises(
            RequestRejected, match=r"401 s away from now and only 300 s are allowed"
        ):
            STANDARD.verify(received(signed(), BODY), secrets=[SECRET], now=at(seconds))


def test_a_public_key_verifies_ed25519_and_nothing_else() -> None:
    assert outcome(STANDARD, received(ed25519(), BODY), PUBLIC) == ACCEPTED
    assert outcome(STANDARD, received(ed25519(), BODY + b" "), PUBLIC) == "signature_mismatch"
    assert outcome(STANDARD, received(signed(), BODY), PUBLIC) == "signature_not_accepted"
    # anybody can compute an HMAC with the public key
    by_public_key = signed("whsec_" + PUBLIC.removeprefix("whpk_"))
    assert outcome(STANDARD, received(by_public_key, BODY), PUBLIC) == "signature_not_accepted"


def test_a_correct_hmac_does_not_excuse_a_wrong_ed25519_signature() -> None:
    right = signed()["webhook-signature"]
    wrong = "v1a," + b64(ED25519.sign(b"something else"))
    both = signed() | {"webhook-signature": f"{wrong} {right}"}
    assert outcome(STANDARD, received(both, BODY), PUBLIC, SECRET) == "signature_mismatch"
    assert outcome(STANDARD, received(signed(), BODY), PUBLIC, SECRET) == ACCEPTED


def test_a_source_without_a_usable_secret_accepts_nothing() -> None:
    for secrets in [(), ("",), ("whsec_",), ("whpk_",), ("whsec_" + b64(b"short"),)]:
        assert outcome(STANDARD, received(signed(), BODY), *secrets) == "secret_missing"
    assert outcome(STANDARD, received(signed(), BODY), "", SECRET) == ACCEPTED


def test_only_headers_with_the_configured_prefix_are_verified() -> None:
    svix = provider("standard", {"header_prefix": "svix"})
    request = received(signed(name="svix"), BODY)
    assert outcome(svix, request, SECRET) == ACCEPTED
    assert svix.delivery_id(request, {}) == "msg_1"
    assert outcome(svix, received(signed(), BODY), SECRET) == "signature_missing"
    assert outcome(STANDARD, request, SECRET) == "signature_missing"
    mixed = signed(name="svix") | {"webhook-signature": "v1,x"}
    assert outcome(svix, received(mixed, BODY), SECRET) == ACCEPTED
    twice = [*signed(name="svix").items(), ("Svix-Id", "msg_1")]
    assert outcome(svix, received(twice, BODY), SECRET) == "signature_malformed"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("billing.invoice.paid", "standard.billing_invoice.paid"),
        (None, "standard.event.received"),
    ],
)
def test_types_are_converted_under_the_namespace(given: str | None, name: str) -> None:
    assert STANDARD.event_type(received({}), {"type": given}) == name
    acme = provider("standard", {"namespace": "acme"})
    assert acme.event_type(received({}), {"type": given}) == name.replace("standard", "acme", 1)


@pytest.mark.parametrize("namespace", ["hookfast", "", "A", "a.b", "9a", "a" * 31, "a\n"])
def test_an_invalid_namespace_is_rejected(namespace: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        provider("standard", {"namespace": namespace})
    assert rejected.value.errors[0].pointer == "/options/namespace"


def test_secrets_are_checked_at_creation() -> None:
    for good in (SECRET, PUBLIC, DOCS_SECRET):
        STANDARD.check_secret(good, pointer="/secrets/0")
    for bad in ("", "whsec_", "whpk_AAAA", "not base64 at all", "whsec_" + b64(b"x" * 65)):
        with pytest.raises(InvalidInput) as rejected:
            STANDARD.check_secret(bad, pointer="/secrets/1")
        assert rejected.value.errors[0].pointer == "/secrets/1"
        assert not bad or bad not in rejected.value.message.split()


def test_the_vector_matches_the_reference_library() -> None:
    signature = Webhook(DOCS_SECRET).sign(DOCS["webhook-id"], DOCS_NOW, DOCS_BODY.decode())
    assert signature == DOCS_SIGNATURE
    assert base64.b64decode(DOCS_SECRET)
