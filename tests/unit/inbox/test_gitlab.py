"""GitLab's token, and its signature, which decides alone.

GitLab publishes no vector of its signature; it is the one of Standard Webhooks
(gitlab-org/gitlab!230944), so that specification's vector and its library check it.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from hookfast.errors import InvalidInput
from hookfast.inbox import provider
from hookfast.inbox.idempotency_key import covers_any_body
from tests.unit.inbox.requests import ACCEPTED, NOW, TIME, outcome, received

GITLAB = provider("gitlab")
TOKEN = "a-secret-token-of-the-project"
SIGNING = "whsec_" + base64.b64encode(b"s" * 32).decode()
BODY = b'{"object_kind":"push"}'
ID = "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"


def signed(*, secret: str = SIGNING, body: bytes = BODY, seconds: int = 0) -> dict[str, str]:
    return {
        "webhook-id": ID,
        "webhook-timestamp": str(TIME + seconds),
        "webhook-signature": Webhook(secret).sign(
            ID, datetime.fromtimestamp(TIME + seconds, UTC), body.decode()
        ),
    }


# https://github.com/standard-webhooks/standard-webhooks: libraries/python/tests/test_webhooks.py
def test_the_vector_of_the_specification_is_accepted() -> None:
    request = received(
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
    )
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    then = datetime.fromtimestamp(1614265330, UTC)
    assert outcome(GITLAB, request, secret, now=then) == ACCEPTED


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (TOKEN, ACCEPTED),
        ("", "signature_malformed"),
        (TOKEN.upper(), "signature_mismatch"),
        (TOKEN[:-1], "signature_mismatch"),
        (TOKEN + "x", "signature_mismatch"),
        (f" {TOKEN}", "signature_mismatch"),
        (f"{TOKEN},{TOKEN}", "signature_mismatch"),
        (TOKEN.replace("a", "а"), "signature_malformed"),  # Cyrillic
    ],
)
def test_the_token_must_be_the_secret(token: str, code: str) -> None:
    assert outcome(GITLAB, received({"X-Gitlab-Token": token}, BODY), TOKEN) == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"webhook-signature": "v1," + "A" * 43 + "="}, "signature_mismatch"),
        ({"webhook-signature": "v1,"}, "signature_mismatch"),
        ({"webhook-signature": ""}, "signature_malformed"),
        ({"webhook-signature": "v2,abc"}, "signature_not_accepted"),
        ({"webhook-id": "another"}, "signature_mismatch"),
        ({"webhook-timestamp": str(TIME + 1)}, "signature_mismatch"),
        ({"webhook-timestamp": "now"}, "timestamp_malformed"),
    ],
)
def test_a_correct_token_does_not_excuse_a_wrong_signature(
    changes: dict[str, str], code: str
) -> None:
    headers = signed() | changes | {"X-Gitlab-Token": TOKEN}
    assert outcome(GITLAB, received(headers, BODY), SIGNING, TOKEN) == code


def test_a_source_with_a_signing_token_rejects_a_token_alone() -> None:
    request = received({"X-Gitlab-Token": TOKEN}, BODY)
    assert outcome(GITLAB, request, SIGNING, TOKEN) == "signature_missing"


def test_a_signed_request_needs_the_signing_token() -> None:
    headers = signed() | {"X-Gitlab-Token": TOKEN}
    assert outcome(GITLAB, received(headers, BODY), TOKEN) == "signature_not_accepted"


def test_the_signing_token_is_not_accepted_as_a_token() -> None:
    assert outcome(GITLAB, received({"X-Gitlab-Token": SIGNING}, BODY), SIGNING) == (
        "signature_missing"
    )


def test_a_broken_signing_token_verifies_nothing() -> None:
    request = received(signed(), BODY)
    assert outcome(GITLAB, request, "whsec_", now=NOW) == "secret_missing"
    assert outcome(GITLAB, request, "whsec_", SIGNING, now=NOW) == ACCEPTED


@pytest.mark.parametrize(
    ("payload", "event", "name"),
    [
        (
            {"object_kind": "merge_request", "object_attributes": {"action": "update"}},
            "Merge Request Hook",
            "gitlab.merge_request.updated",
        ),
        (
            {"object_kind": "merge_request", "object_attributes": {"action": "open"}},
            None,
            "gitlab.merge_request.opened",
        ),
        (
            {"object_kind": "merge_request", "object_attributes": {"action": "approved"}},
            None,
            "gitlab.merge_request.approved",
        ),
        (
            {"object_kind": "merge_request", "object_attributes": {"action": "approval"}},
            None,
            "gitlab.merge_request.approval_added",
        ),
        ({"object_kind": "push"}, "Push Hook", "gitlab.push.received"),
        ({"object_kind": "release", "action": "create"}, None, "gitlab.release.created"),
        ({"object_kind": "release", "action": "ponder"}, None, "gitlab.release.ponder"),
        (
            {"object_kind": "pipeline", "object_attributes": {"status": "success"}},
            None,
            "gitlab.pipeline.success",
        ),
        ({"object_kind": "build", "build_status": "failed"}, None, "gitlab.build.failed"),
        ({"event_name": "project_create"}, "System Hook", "gitlab.project_create.received"),
        ({}, "Tag Push Hook", "gitlab.tag_push.received"),
        ({}, None, "gitlab.event.received"),
        ([], None, "gitlab.event.received"),
        ({"object_kind": 1, "object_attributes": []}, None, "gitlab.event.received"),
    ],
)
def test_the_event_type_is_from_the_kind_and_the_action(
    payload: object, event: str, name: str
) -> None:
    headers = {} if event is None else {"X-Gitlab-Event": event}
    assert GITLAB.event_type(received(headers), payload) == name  # type: ignore[arg-type]


def test_the_delivery_id_is_the_same_for_retries() -> None:
    every = {"webhook-id": "w", "Idempotency-Key": "i", "X-Gitlab-Event-UUID": "u"}
    assert GITLAB.delivery_id(received(every), {}) == "w"
    del every["webhook-id"]
    assert GITLAB.delivery_id(received(every), {}) == "i"
    del every["Idempotency-Key"]
    assert GITLAB.delivery_id(received(every), {}) == "u"
    assert GITLAB.delivery_id(received({"X-Gitlab-Event-UUID": "ü"}), {}) is None
    assert GITLAB.delivery_id(received({}), {}) is None


def test_hooks_of_one_event_are_distinguished_by_their_bodies() -> None:
    assert not covers_any_body(f"id:{ID}", GITLAB)


@pytest.mark.parametrize("secret", ["", "short", "whsec_", "whsec_AAAA", "ü" * 20, " " + "a" * 20])
def test_unusable_secrets_are_rejected_when_a_source_is_created(secret: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        GITLAB.check_secret(secret, pointer="/secrets/0")
    assert rejected.value.code == "invalid_secret"
    assert rejected.value.errors[0].pointer == "/secrets/0"
    GITLAB.check_secret(TOKEN, pointer="/secrets/0")
    GITLAB.check_secret(SIGNING, pointer="/secrets/0")
