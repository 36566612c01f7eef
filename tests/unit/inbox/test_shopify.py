"""Shopify's signatures. Neither its documentation nor its SDKs publish one with its secret and
body (shopify-api-js, shopify-api-ruby compute theirs), so OpenSSL computes these as documented."""

from __future__ import annotations

import pytest

from hookfast.inbox import provider
from tests.unit.inbox.requests import ACCEPTED, b64, mac, outcome, received

SHOPIFY = provider("shopify")
SECRET = "shpss_0123456789abcdef0123456789"
BODY = b'{"id":820982911946154508,"note":"\xc3\xbc"}'
GOOD = b64(mac(SECRET, BODY))
HEADER = "X-Shopify-Hmac-Sha256"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (GOOD, ACCEPTED),
        (GOOD.rstrip("="), "signature_malformed"),
        (GOOD + "=", "signature_malformed"),
        (f" {GOOD}", "signature_malformed"),
        (GOOD[:20] + " " + GOOD[20:], "signature_malformed"),
        (GOOD[:-4], "signature_malformed"),
        (GOOD[:-2].swapcase() + GOOD[-2:], "signature_mismatch"),
        (f"{GOOD}ü", "signature_malformed"),
        (mac(SECRET, BODY).hex(), "signature_malformed"),
        (b64(mac(SECRET, BODY) + b"\0"), "signature_malformed"),
        (b64(mac(SECRET, BODY)[:20]), "signature_malformed"),
        (b64(mac(SECRET, BODY + b"\n")), "signature_mismatch"),
        (b64(mac("another secret", BODY)), "signature_mismatch"),
        (b64(mac("", BODY)), "signature_mismatch"),
        (f"{GOOD},{GOOD}", "signature_malformed"),
        (f"sha256={GOOD}", "signature_malformed"),
        ("", "signature_malformed"),
    ],
)
def test_only_the_base64_of_the_hmac_is_accepted(given: str, code: str) -> None:
    assert outcome(SHOPIFY, received({HEADER: given}, BODY), SECRET) == code


def test_unused_base64_bits_must_be_zero() -> None:
    # 32 bytes leave two bits of the 43rd character; Python's decoder ignores them
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet.index(GOOD[-2])
    other = GOOD[:-2] + alphabet[last ^ 1] + "="
    assert outcome(SHOPIFY, received({HEADER: other}, BODY), SECRET) == "signature_malformed"


def test_one_event_with_two_topics_is_two_deliveries() -> None:
    both = {"X-Shopify-Event-Id": "98880550-7158", "X-Shopify-Webhook-Id": "b54557e4"}
    created = received(both | {"X-Shopify-Topic": "products/create"})
    updated = received(both | {"X-Shopify-Topic": "products/update"})
    assert SHOPIFY.delivery_id(created, {}) == "98880550-7158/products/create"
    assert SHOPIFY.delivery_id(updated, {}) == "98880550-7158/products/update"
    assert SHOPIFY.delivery_id(received({"X-Shopify-Webhook-Id": "b54557e4"}), {}) == "b54557e4"
    assert SHOPIFY.delivery_id(received({}), {}) is None


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders/create", "shopify.orders.create"),
        ("app/uninstalled", "shopify.app.uninstalled"),
        ("customers/data_request", "shopify.customers.data_request"),
        ("orders", "shopify.orders.received"),
        ("", "shopify.event.received"),
        (None, "shopify.event.received"),
    ],
)
def test_topics_become_event_types(topic: str | None, name: str) -> None:
    headers = {} if topic is None else {"X-Shopify-Topic": topic}
    assert SHOPIFY.event_type(received(headers), {}) == name
