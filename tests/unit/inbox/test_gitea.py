"""Gitea's and Forgejo's signatures. Neither publishes one with its secret and body (go-gitea/gitea:
services/webhook/deliver.go computes a bare hex HMAC-SHA-256), so OpenSSL computes these."""

from __future__ import annotations

import pytest

from hookfast.errors import HookfastError
from hookfast.inbox import UnsupportedContentType, provider
from tests.unit.inbox.requests import ACCEPTED, FORM, form, mac, outcome, received

GITEA = provider("gitea")
SECRET = "a-secret-of-the-repository"
BODY = b'{"ref":"refs/heads/main"}'
GOOD = mac(SECRET, BODY).hex()
OTHER = mac("another", BODY).hex()


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
        ({"X-Gitea-Signature": GOOD.upper()}, "signature_malformed"),
        ({"X-Gitea-Signature": GOOD[:-1]}, "signature_malformed"),
        ({"X-Gitea-Signature": GOOD + "00"}, "signature_malformed"),
        ({"X-Gitea-Signature": f"{GOOD} "}, "signature_malformed"),
        ({"X-Gitea-Signature": GOOD[:-1] + "é"}, "signature_malformed"),
        ({"X-Gitea-Signature": mac(SECRET, BODY + b"x").hex()}, "signature_mismatch"),
        ({"X-Gitea-Signature": mac("", BODY).hex()}, "signature_mismatch"),
        (
            [("X-Gitea-Signature", GOOD), ("X-Gitea-Signature", GOOD)],
            "signature_malformed",
        ),
    ],
)
def test_only_the_bare_hex_of_the_hmac_is_accepted(headers: dict[str, str], code: str) -> None:
    assert outcome(GITEA, received(headers, BODY), SECRET) == code


def test_a_form_is_rejected_before_its_signature_is_verified() -> None:
    body = form({"payload": BODY.decode()})
    with pytest.raises(UnsupportedContentType):
        GITEA.check_content_type(received({"X-Gitea-Signature": GOOD}, body, content_type=FORM))
    assert issubclass(UnsupportedContentType, HookfastError)


@pytest.mark.parametrize(
    ("headers", "payload", "name"),
    [
        ({"X-Gitea-Event": "push"}, {}, "gitea.push.received"),
        ({"X-Gitea-Event": "pull_request"}, {"action": "closed"}, "gitea.pull_request.closed"),
        ({"X-Forgejo-Event": "release"}, {"action": "published"}, "gitea.release.published"),
        ({}, None, "gitea.event.received"),
    ],
)
def test_the_event_type_is_from_the_header_and_the_action(
    headers: dict[str, str], payload: object, name: str
) -> None:
    assert GITEA.event_type(received(headers), payload) == name  # type: ignore[arg-type]


def test_the_delivery_id_is_that_of_gitea_or_forgejo() -> None:
    assert GITEA.delivery_id(received({"X-Gitea-Delivery": "g"}), {}) == "g"
    assert GITEA.delivery_id(received({"X-Forgejo-Delivery": "f"}), {}) == "f"
    assert GITEA.delivery_id(received({"X-GitHub-Delivery": "h"}), {}) is None
