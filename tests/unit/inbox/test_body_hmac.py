"""The providers that sign the body alone: Bitbucket, Gitea (with Forgejo) and Shopify.

Atlassian publishes a vector for X-Hub-Signature. Neither Gitea, Forgejo nor Shopify publishes a
signature with its secret and body (go-gitea/gitea: services/webhook/deliver.go, shopify-api-js and
shopify-api-ruby only compute them), so OpenSSL computes these as documented.
"""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA1

from hookfast.errors import HookfastError
from hookfast.inbox import UnsupportedContentType, provider
from tests.unit.inbox.requests import ACCEPTED, FORM, b64, form, mac, outcome, received

BITBUCKET, GITEA, SHOPIFY = provider("bitbucket"), provider("gitea"), provider("shopify")

# https://developer.atlassian.com/cloud/jira/platform/webhooks/ ("Secure admin webhooks"), for the
# same header in the same scheme as Bitbucket's:
# https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
DOCS_SECRET = "It's a Secret to Everybody"
DOCS_BODY = b"Hello World!"
HEX = "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
WEAK = mac(DOCS_SECRET, DOCS_BODY, SHA1()).hex()  # noqa: S303 - to be rejected

SECRET = "a-secret-of-the-repository"
BODY = b'{"ref":"refs/heads/main","note":"\xc3\xbc"}'
GOOD = mac(SECRET, BODY).hex()
OTHER = mac("another", BODY).hex()
GOOD64 = b64(mac(SECRET, BODY))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (f"sha256={HEX}", ACCEPTED),
        (f"sha1={WEAK}", "signature_not_accepted"),
        ("md5=ed076287532e86365e841e92bfc50d8c", "signature_not_accepted"),
        (f"sha512={HEX}", "signature_malformed"),
        (HEX, "signature_malformed"),
        (f"sha256={HEX.upper()}", "signature_malformed"),
        (f"sha256={WEAK}", "signature_malformed"),
        (f"sha256={'0' * 64}", "signature_mismatch"),
        (f"sha256={mac('', DOCS_BODY).hex()}", "signature_mismatch"),
    ],
)
def test_bitbucket_accepts_only_sha256(given: str, code: str) -> None:
    request = received({"X-Hub-Signature": given}, DOCS_BODY)
    assert outcome(BITBUCKET, request, DOCS_SECRET) == code


def test_bitbucket_ignores_githubs_header() -> None:
    request = received({"X-Hub-Signature-256": f"sha256={HEX}"}, DOCS_BODY)
    assert outcome(BITBUCKET, request, DOCS_SECRET) == "signature_missing"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"X-Gitea-Signature": GOOD}, ACCEPTED),
        ({"X-Forgejo-Signature": GOOD}, ACCEPTED),
        ({"X-Forgejo-Signature": GOOD, "X-Gitea-Signature": GOOD}, ACCEPTED),
        ({"X-Forgejo-Signature": OTHER, "X-Gitea-Signature": GOOD}, "signature_mismatch"),
        ({"X-Forgejo-Signature": GOOD, "X-Gitea-Signature": OTHER}, "signature_mismatch"),
        ({"X-Forgejo-Signature": GOOD, "X-Gitea-Signature": ""}, "signature_malformed"),
        ({}, "signature_missing"),
        # what Gitea sends for GitHub's receivers
        ({"X-Hub-Signature-256": f"sha256={GOOD}"}, "signature_missing"),
        ({"X-Gogs-Signature": GOOD}, "signature_missing"),
        ({"X-Gitea-Signature": ""}, "signature_malformed"),  # Gitea without a secret
        ({"X-Gitea-Signature": f"sha256={GOOD}"}, "signature_malformed"),
        ({"X-Gitea-Signature": mac(SECRET, BODY + b"x").hex()}, "signature_mismatch"),
        ({"X-Gitea-Signature": mac("", BODY).hex()}, "signature_mismatch"),
        ([("X-Gitea-Signature", GOOD), ("X-Gitea-Signature", GOOD)], "signature_malformed"),
    ],
)
def test_gitea_accepts_only_the_bare_hex_of_the_hmac(headers: dict[str, str], code: str) -> None:
    assert outcome(GITEA, received(headers, BODY), SECRET) == code


def test_gitea_takes_no_form_because_its_signature_covers_only_a_field() -> None:
    body = form({"payload": BODY.decode()})
    with pytest.raises(UnsupportedContentType):
        GITEA.check_content_type(received({"X-Gitea-Signature": GOOD}, body, content_type=FORM))
    assert issubclass(UnsupportedContentType, HookfastError)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (GOOD64, ACCEPTED),
        (GOOD64.rstrip("="), "signature_malformed"),
        (GOOD64[:-2].swapcase() + GOOD64[-2:], "signature_mismatch"),
        (GOOD, "signature_malformed"),
        (b64(mac(SECRET, BODY + b"\n")), "signature_mismatch"),
        (b64(mac("another secret", BODY)), "signature_mismatch"),
        (b64(mac("", BODY)), "signature_mismatch"),
    ],
)
def test_shopify_accepts_only_the_base64_of_the_hmac(given: str, code: str) -> None:
    request = received({"X-Shopify-Hmac-Sha256": given}, BODY)
    assert outcome(SHOPIFY, request, SECRET) == code


EVENT = {
    "Shopify-Hmac-Sha256": GOOD64,
    "Shopify-Topic": "Product",
    "Shopify-Action": "update",
    "Shopify-Webhook-Id": "evt-1",
}


def test_shopifys_events_are_signed_and_named_in_headers_without_x() -> None:
    request = received(EVENT, BODY)
    assert outcome(SHOPIFY, request, SECRET) == ACCEPTED
    assert SHOPIFY.event_type(request, {}) == "shopify.product.update"
    assert SHOPIFY.delivery_id(request, {}) == "evt-1"
    # for a while, Shopify sends the headers of both kinds
    both = {"X-Shopify-Hmac-Sha256": GOOD64, "X-Shopify-Topic": "Product"}
    request = received(EVENT | both, BODY)
    assert outcome(SHOPIFY, request, SECRET) == ACCEPTED
    assert SHOPIFY.event_type(request, {}) == "shopify.product.update"
    other = EVENT | {"X-Shopify-Hmac-Sha256": b64(mac("another", BODY))}
    assert outcome(SHOPIFY, received(other, BODY), SECRET) == "signature_mismatch"


@pytest.mark.parametrize(
    ("name", "headers", "delivery_id"),
    [
        ("bitbucket", {"X-Request-UUID": "c", "X-Hook-UUID": "always the same"}, "c"),
        ("bitbucket", {"X-Request-Id": "d"}, "d"),  # Data Center
        ("bitbucket", {"X-Hook-UUID": "h"}, None),
        ("gitea", {"X-Gitea-Delivery": "g"}, "g"),
        ("gitea", {"X-Forgejo-Delivery": "f"}, "f"),
        ("gitea", {"X-GitHub-Delivery": "h"}, None),
        ("shopify", {"X-Shopify-Webhook-Id": "b5"}, "b5"),
        ("shopify", {}, None),
    ],
)
def test_the_delivery_id_is_in_the_providers_header(
    name: str, headers: dict[str, str], delivery_id: str | None
) -> None:
    assert provider(name).delivery_id(received(headers), {}) == delivery_id


def test_one_shopify_event_with_two_topics_is_two_deliveries() -> None:
    both = {"X-Shopify-Event-Id": "98880550-7158", "X-Shopify-Webhook-Id": "b54557e4"}
    created = received(both | {"X-Shopify-Topic": "products/create"})
    updated = received(both | {"X-Shopify-Topic": "products/update"})
    assert SHOPIFY.delivery_id(created, {}) == "98880550-7158/products/create"
    assert SHOPIFY.delivery_id(updated, {}) == "98880550-7158/products/update"


@pytest.mark.parametrize(
    ("headers", "payload", "event_type"),
    [
        ({"X-Event-Key": "repo:push"}, {}, "bitbucket.repo.push"),
        (
            {"X-Event-Key": "pullrequest:comment_created"},
            {},
            "bitbucket.pullrequest.comment_created",
        ),
        (
            {"X-Event-Key": "pr:reviewer:changes_requested"},
            {},
            "bitbucket.pr_reviewer.changes_requested",
        ),
        ({"X-Event-Key": "diagnostics:ping"}, {}, "bitbucket.diagnostics.ping"),
        ({}, {}, "bitbucket.event.received"),
        ({"X-Gitea-Event": "push"}, {}, "gitea.push.received"),
        ({"X-Gitea-Event": "pull_request"}, {"action": "closed"}, "gitea.pull_request.closed"),
        ({"X-Forgejo-Event": "release"}, {"action": "published"}, "gitea.release.published"),
        ({}, None, "gitea.event.received"),
        ({"X-Shopify-Topic": "orders/create"}, {}, "shopify.orders.create"),
        ({"X-Shopify-Topic": "app/uninstalled"}, {}, "shopify.app.uninstalled"),
        ({"X-Shopify-Topic": "customers/data_request"}, {}, "shopify.customers.data_request"),
        ({"X-Shopify-Topic": "orders"}, {}, "shopify.orders.received"),
        ({"X-Shopify-Topic": ""}, {}, "shopify.event.received"),
        ({}, {}, "shopify.event.received"),
    ],
)
def test_the_event_type_is_from_the_providers_header(
    headers: dict[str, str], payload: object, event_type: str
) -> None:
    named = provider(event_type.partition(".")[0])
    assert named.event_type(received(headers), payload) == event_type  # type: ignore[arg-type]
