"""Headers that describe the event are kept; credentials and connection headers are dropped."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.inbox import Provider, provider
from hookfast.inbox.kept_headers import MAX_HEADERS, MAX_TOTAL, MAX_VALUE, kept_headers
from hookfast.inbox.provider import Unsigned
from hookfast.inbox.verified_request import SourceRules, VerifiedRequest, verify_and_parse
from tests.unit.inbox.requests import JSON, NOW, URL, received

SECRET = "a-secret-of-the-provider"
NO_RULES = SourceRules(
    event_types={}, id_expression=None, business_keys=None, business_window=timedelta()
)


@pytest.mark.parametrize(
    "name",
    [
        "X-GitHub-Event",
        "X-GitHub-Delivery",
        "X-GitHub-Hook-ID",
        "X-Gitlab-Event",
        "X-Gitlab-Event-UUID",
        "X-Gitlab-Instance",
        "Idempotency-Key",
        "X-Shopify-Topic",
        "X-Shopify-Event-Id",
        "X-Event-Key",  # Bitbucket's event name
        "X-Request-UUID",
        "X-Gitea-Event",
        "X-Slack-Retry-Num",
        "I-Twilio-Idempotency-Token",
        "X-Author",
        "Content-Encoding",  # of the body that `raw` forwards
    ],
)
def test_headers_that_describe_the_event_are_kept(name: str) -> None:
    assert kept_headers([(name, "it")]) == [(name, "it")]
    assert kept_headers([(name.lower(), "it")]) == [(name.lower(), "it")]


@pytest.mark.parametrize(
    "name",
    [
        # credentials
        *("Authorization", "Proxy-Authorization", "Cookie", "X-Gitlab-Token", "X-Api-Key"),
        *("X-Apikey", "X-Auth", "X-Secret", "X-Password", "X-Session-Id", "X-Access-Key", "X-CSRF"),
        # signatures
        *("X-Hub-Signature", "X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature"),
        *("X-Shopify-Hmac-Sha256", "X-Gitea-Signature", "X-Twilio-Signature", "X-Sign", "X-Mac"),
        # Hookfast sets these when it forwards
        *("webhook-id", "webhook-signature", "X-Hook-Id", "X-Hook-Topic", "X-Hook-Hops"),
        "X-Webhook-Signature",
        *("User-Agent", "Content-Type", "Content-Length", "traceparent", "tracestate"),
        # of the connection, and of proxies
        *("Host", "Connection", "Keep-Alive", "Transfer-Encoding", "TE", "Trailer", "Upgrade"),
        *("X-Request-Id", "X-Correlation-Id"),
        *("Via", "Forwarded", "X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "Expect"),
    ],
)
def test_credentials_and_connection_headers_are_dropped(name: str) -> None:
    assert kept_headers([(name, "hush"), (name.lower(), "hush"), (name.upper(), "hush")]) == []


def test_a_request_id_is_kept_only_as_the_delivery_id() -> None:
    given = [("X-Request-ID", "1"), ("X-Correlation-ID", "2"), ("Authorization", "hush")]
    assert kept_headers(given, ids=["x-request-id", "authorization"]) == [("X-Request-ID", "1")]


@pytest.mark.parametrize(
    ("bound", "kept"),
    [
        (provider("bitbucket"), ["X-Request-Id"]),
        (provider("gitea"), []),
        (
            provider("generic", {"signature_header": "X-S", "id_header": "X-Correlation-Id"}),
            ["X-Correlation-Id"],
        ),
    ],
)
def test_the_header_with_the_providers_delivery_id_is_kept(
    bound: Provider, kept: list[str]
) -> None:
    headers = {"X-Request-Id": "1", "X-Correlation-Id": "2"}
    unsigned = Unsigned(body=b"{}", content_type=JSON, url=URL, id="2", at=NOW)
    request = received(headers | bound.sign(unsigned, secret=SECRET))
    found = verify_and_parse(bound, request, rules=NO_RULES, secrets=[SECRET], now=NOW)
    assert isinstance(found, VerifiedRequest)
    assert [name for name, _ in found.headers if name in headers] == kept


def test_a_header_that_options_name_as_credential_is_dropped() -> None:
    assert kept_headers([("X-Acme", "hush"), ("X-Other", "it")], credentials=["x-acme"]) == [
        ("X-Other", "it")
    ]


@pytest.mark.parametrize("value", ["", "a", "a b", "a\tb", "\xdf", "\x80 \xff", "x" * MAX_VALUE])
def test_a_header_value_that_rfc_9110_allows_is_kept(value: str) -> None:
    assert kept_headers([("X-Acme", value)]) == [("X-Acme", value)]


@pytest.mark.parametrize(
    "value",
    [
        *("a\nb", "a\r\nX-Evil: 1", "a\rb", "a\0b", "a\x7fb", "a\x0bb", "a\x1fb"),
        *(" a", "a\t", "\u0100", "a\ud800", "x" * (MAX_VALUE + 1)),
    ],
)
def test_a_header_value_that_cannot_be_forwarded_is_dropped(value: str) -> None:
    assert kept_headers([("X-Acme", value), ("X-Other", "it")]) == [("X-Other", "it")]


def test_a_header_with_an_invalid_name_is_dropped() -> None:
    assert kept_headers([("X Acme", "it"), ("X:Acme", "it"), ("", "it")]) == []


def test_the_number_and_size_of_kept_headers_are_limited() -> None:
    many = [(f"X-{n}", "it") for n in range(MAX_HEADERS + 1)]
    assert kept_headers(many) == many[:MAX_HEADERS]
    large = [(f"X-{n}", "x" * MAX_VALUE) for n in range(MAX_TOTAL // MAX_VALUE + 1)]
    assert len(kept_headers(large)) == MAX_TOTAL // MAX_VALUE - 1
    assert kept_headers([("X-Twice", "1"), ("X-Twice", "2")]) == [
        ("X-Twice", "1"),
        ("X-Twice", "2"),
    ]
