"""Stripe's signatures, against the vector and the cases of its SDKs."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from hookfast.errors import InvalidInput
from hookfast.inbox import provider
from tests.unit.inbox.requests import ACCEPTED, NOW, TIME, at, mac, outcome, received

STRIPE = provider("stripe")

# https://github.com/stripe/stripe-dotnet: src/StripeTests/Resources/event_test_signature.json and
# src/StripeTests/Services/Events/EventUtilityTest.cs
SDK_SECRET = "webhook_secret"
SDK_TIME = datetime.fromtimestamp(1533204620, UTC)
SDK_HEADER = (
    "t=1533204620,"
    "v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7,"
    "v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
)
SDK_EVENT = {
    "id": "evt_123",
    "object": "event",
    "account": "acct_123",
    "api_version": "2017-05-25",
    "created": 1533204620,
    "data": {
        "object": {
            "id": "cus_123",
            "object": "customer",
            "created": 123456789,
            "email": "test@stripe.com",
            "livemode": False,
            "metadata": {},
        }
    },
    "livemode": False,
    "pending_webhooks": 1,
    "request": {"id": "req_123", "idempotency_key": "idempotency-key-123"},
    "type": "customer.created",
}
SDK_BODY = json.dumps(SDK_EVENT, indent=2).encode() + b"\n"

SECRET = "whsec_test_secret"
PREVIOUS = "whsec_test_secret_before"
BODY = b'{"id":"evt_test_webhook","object":"event"}'


def v1(*, secret: str = SECRET, timestamp: object = TIME, body: bytes = BODY) -> str:
    return mac(secret, f"{timestamp}.".encode() + body).hex()


def test_the_vector_of_the_sdk_is_accepted() -> None:
    request = received({"Stripe-Signature": SDK_HEADER}, SDK_BODY)
    assert outcome(STRIPE, request, SDK_SECRET, now=SDK_TIME) == ACCEPTED
    assert STRIPE.event_type(request, STRIPE.payload(request)) == "stripe.customer.created"
    assert STRIPE.delivery_id(request, STRIPE.payload(request)) == "evt_123"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        # stripe-python: tests/test_webhook.py, stripe-go: webhook/client_test.go
        (f"t={TIME},v1={v1()},v1=bad_signature", ACCEPTED),
        (f"t={TIME},v1=bad_signature,v1={v1()}", ACCEPTED),
        (f"t={TIME},v1={v1(secret=PREVIOUS)},v1={v1()}", ACCEPTED),
        (f"t={TIME},v2=abc,v1={v1()}", ACCEPTED),
        (f"t={TIME},v0={v1()}", "signature_not_accepted"),
        (f"t={TIME},v0={v1()},v1={'0' * 64}", "signature_mismatch"),
        ("i'm not even a real signature header", "signature_malformed"),
        ("bad_header", "signature_malformed"),
        ("v1,t=1", "signature_malformed"),
        ("t=", "timestamp_malformed"),
        (f"t={TIME},v1=bad_signature", "signature_malformed"),
        # our own cases
        ("", "signature_malformed"),
        (f"t={TIME}", "signature_not_accepted"),
        (f"v1={v1()}", "signature_malformed"),
        (f"t={TIME},t={TIME},v1={v1()}", "signature_malformed"),
        (f"t={TIME},V1={v1()}", "signature_not_accepted"),
        (f"t={TIME}, v1={v1()}", "signature_not_accepted"),  # no blanks between fields
        (f"t={TIME},v1={v1().upper()}", "signature_malformed"),
        (f"t={TIME},v1={v1(body=BODY + b' ')}", "signature_mismatch"),
        (f"t={TIME},v1={v1(secret=' ')}", "signature_mismatch"),
        (f"t={TIME + 1},v1={v1()}", "signature_mismatch"),  # the time is signed
        # the time is signed as text
        (f"t=0{TIME},v1={v1()}", "signature_mismatch"),
        (f"t=0{TIME},v1={v1(timestamp=f'0{TIME}')}", ACCEPTED),
        (f"t=+{TIME},v1={v1(timestamp=f'+{TIME}')}", "timestamp_malformed"),
        (f"t=-1,v1={v1(timestamp='-1')}", "timestamp_malformed"),
        (f"t=1_0,v1={v1(timestamp='1_0')}", "timestamp_malformed"),
        (f"t=1e9,v1={v1(timestamp='1e9')}", "timestamp_malformed"),
        (f"t={TIME},v1={v1()}" + ",x=1" * 31, "signature_malformed"),
    ],
)
def test_only_a_correct_v1_signature_is_accepted(header: str, code: str) -> None:
    assert outcome(STRIPE, received({"Stripe-Signature": header}, BODY), SECRET) == code


def test_the_tolerance_can_be_narrowed() -> None:
    narrow = provider("stripe", {"tolerance_seconds": 10})
    request = received({"Stripe-Signature": f"t={TIME},v1={v1()}"}, BODY)
    assert outcome(narrow, request, SECRET, now=at(10)) == ACCEPTED
    assert outcome(narrow, request, SECRET, now=at(11)) == "timestamp_out_of_tolerance"


def test_a_forged_request_does_not_learn_that_it_is_also_old() -> None:
    request = received({"Stripe-Signature": f"t=1,v1={v1()}"}, BODY)
    assert outcome(STRIPE, request, SECRET, now=NOW) == "signature_mismatch"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("payment_intent.succeeded", "stripe.payment_intent.succeeded"),
        (
            "customer.subscription.trial_will_end",
            "stripe.customer_subscription.trial_will_end",
        ),
        (
            "v1.billing.meter.error_report_triggered",
            "stripe.v1_billing_meter.error_report_triggered",
        ),
        (None, "stripe.event.received"),
    ],
)
def test_events_of_any_depth_become_three_part_types(given: object, name: str) -> None:
    assert STRIPE.event_type(received({}), {"type": given}) == name  # type: ignore[dict-item]


def test_an_api_key_is_rejected_as_signing_secret() -> None:
    STRIPE.check_secret("whsec_0123456789abcdef", pointer="/secrets/0")
    with pytest.raises(InvalidInput, match="whsec_") as rejected:
        STRIPE.check_secret("sk_live_0123456789abcdef", pointer="/secrets/0")
    assert "0123456789abcdef" not in rejected.value.message
