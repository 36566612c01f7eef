"""GitHub's signatures, against the vectors of its documentation and of its Go SDK."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.hashes import SHA1

from hookfast.errors import InvalidInput
from hookfast.inbox import provider
from hookfast.strict_json.parser import JsonValue
from tests.unit.inbox.requests import ACCEPTED, FORM, form, mac, outcome, received

GITHUB = provider("github")
WITH_SHA1 = provider("github", {"allow_sha1": True})

# https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
DOCS_SECRET = "It's a Secret to Everybody"
DOCS_BODY = b"Hello, World!"
DOCS = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

# https://github.com/google/go-github: github/messages_test.go
SDK_SECRET = "0123456789abcdef"
SDK_BODY = b'{"yo":true}'
SDK_SHA1 = "sha1=126f2c800419c60137ce748d7672e77b65cf16d6"
SDK_SHA256 = "sha256=b1f8020f5b4cd42042f807dd939015c4a418bc1ff7f604dd55b0a19b5d953d9b"

HEX = DOCS.removeprefix("sha256=")


def test_the_vector_of_the_documentation_is_accepted() -> None:
    request = received({"X-Hub-Signature-256": DOCS}, DOCS_BODY)
    assert outcome(GITHUB, request, DOCS_SECRET) == ACCEPTED


def test_the_vector_of_the_sdk_is_accepted() -> None:
    request = received({"X-Hub-Signature-256": SDK_SHA256}, SDK_BODY)
    assert outcome(GITHUB, request, SDK_SECRET) == ACCEPTED


def test_sha1_is_accepted_if_allowed_and_the_only_signature() -> None:
    request = received({"X-Hub-Signature": SDK_SHA1}, SDK_BODY)
    assert outcome(GITHUB, request, SDK_SECRET) == "signature_not_accepted"
    assert outcome(WITH_SHA1, request, SDK_SECRET) == ACCEPTED


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        # a correct SHA-1 does not excuse a SHA-256 that is wrong, malformed or repeated
        ({"X-Hub-Signature": SDK_SHA1, "X-Hub-Signature-256": DOCS}, "signature_mismatch"),
        ({"X-Hub-Signature": SDK_SHA1, "X-Hub-Signature-256": "sha256="}, "signature_malformed"),
        ({"X-Hub-Signature": SDK_SHA1, "X-Hub-Signature-256": ""}, "signature_malformed"),
        ({"X-Hub-Signature": SDK_SHA1, "X-Hub-Signature-256": SDK_SHA1}, "signature_malformed"),
        ({"X-Hub-Signature": SDK_SHA256}, "signature_malformed"),
        (
            [
                ("X-Hub-Signature", SDK_SHA1),
                ("X-Hub-Signature-256", SDK_SHA256),
                ("x-hub-signature-256", SDK_SHA256),
            ],
            "signature_malformed",
        ),
    ],
)
def test_sha1_does_not_replace_a_missing_or_wrong_sha256(
    headers: dict[str, str], code: str
) -> None:
    assert outcome(WITH_SHA1, received(headers, SDK_BODY), SDK_SECRET) == code


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        (HEX, "signature_malformed"),  # no prefix
        (f"sha512={HEX}", "signature_malformed"),
        (f"sha256={HEX.upper()}", "signature_malformed"),
        (f"sha256={'0' * 64}", "signature_mismatch"),
        (f"sha256={HEX[:-1]}8", "signature_mismatch"),
    ],
)
def test_a_wrong_signature_is_rejected(signature: str, code: str) -> None:
    request = received({"X-Hub-Signature-256": signature}, DOCS_BODY)
    assert outcome(GITHUB, request, DOCS_SECRET) == code


@pytest.mark.parametrize("secrets", [(), ("",), ("  ",), ("", "\t"), ("\ud800",)])
def test_a_source_without_a_secret_accepts_nothing(secrets: tuple[str, ...]) -> None:
    signed_with_nothing = f"sha256={mac(b'', SDK_BODY).hex()}"
    request = received({"X-Hub-Signature-256": signed_with_nothing}, SDK_BODY)
    assert outcome(GITHUB, request, *secrets) == "secret_missing"


def test_an_empty_secret_beside_a_real_one_matches_nothing() -> None:
    empty = received({"X-Hub-Signature-256": f"sha256={mac(b'', SDK_BODY).hex()}"}, SDK_BODY)
    assert outcome(GITHUB, empty, SDK_SECRET, "") == "signature_mismatch"
    right = received({"X-Hub-Signature-256": SDK_SHA256}, SDK_BODY)
    assert outcome(GITHUB, right, "", SDK_SECRET) == ACCEPTED


def test_json_in_a_form_is_signed_as_a_form() -> None:
    payload = {"action": "opened", "title": "a & b = ü"}
    body = form({"payload": json.dumps(payload)})
    signature = f"sha256={mac(SDK_SECRET, body).hex()}"
    request = received({"X-Hub-Signature-256": signature}, body, content_type=FORM)
    assert outcome(GITHUB, request, SDK_SECRET) == ACCEPTED
    assert GITHUB.payload(request) == payload


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b"payload=%7B%22a%22%3A1%2C%22a%22%3A2%7D", {"a": 2}),  # {"a":1,"a":2}
        (b'payload={"a":"\\u0000"}', {"a": "\0"}),
        (b'&payload={"a":1}&&b', {"a": 1}),
        # not GitHub's envelope: the form itself
        (b"", {}),
        (b"payload", {"payload": ""}),
        (b"a=1", {"a": "1"}),
        (b"payload=1&payload=2", {"payload": ["1", "2"]}),
        (b"payload=%7B", {"payload": "{"}),
        (b"payload=NaN", {"payload": "NaN"}),
    ],
)
def test_a_form_is_the_json_in_its_payload_or_else_its_fields(
    body: bytes, payload: JsonValue
) -> None:
    assert GITHUB.payload(received({}, body, content_type=FORM)) == payload


def test_json_in_a_form_keeps_its_digits() -> None:
    request = received({}, b'payload={"rate":1.10,"big":1e400}', content_type=FORM)
    assert GITHUB.read(request).text == '{"rate":1.10,"big":1e400}'


@pytest.mark.parametrize(
    ("event", "payload", "name"),
    [
        ("push", {"ref": "refs/heads/main"}, "github.push.received"),
        ("pull_request", {"action": "opened"}, "github.pull_request.opened"),
        ("pull_request", {"action": "ready_for_review"}, "github.pull_request.ready_for_review"),
        ("ping", {"zen": "…"}, "github.ping.received"),
        ("repository_dispatch", {"action": "Deploy It!"}, "github.repository_dispatch.deploy_it"),
        ("push", {"action": {"a": 1}}, "github.push.received"),
        ("push", [], "github.push.received"),
        (None, {"action": "opened"}, "github.event.opened"),
    ],
)
def test_the_event_type_is_from_the_header_and_the_action(
    event: str, payload: object, name: str
) -> None:
    headers = {} if event is None else {"X-GitHub-Event": event}
    assert GITHUB.event_type(received(headers), payload) == name  # type: ignore[arg-type]


def test_the_delivery_id_is_githubs() -> None:
    guid = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
    assert GITHUB.delivery_id(received({"x-github-delivery": guid}), {}) == guid
    assert GITHUB.delivery_id(received({}), {}) is None
    assert GITHUB.delivery_id(received({"X-GitHub-Delivery": "a" * 201}), {}) is None
    twice = [("X-GitHub-Delivery", guid), ("X-GitHub-Delivery", "other")]
    with pytest.raises(InvalidInput) as refused:
        GITHUB.delivery_id(received(twice), {})
    assert refused.value.code == "repeated_header"


def test_the_vector_of_the_sdk_is_what_openssl_computes() -> None:
    sha1 = SHA1()  # noqa: S303 - the vector is one of SHA-1
    assert mac(SDK_SECRET, SDK_BODY, sha1).hex() == SDK_SHA1.removeprefix("sha1=")
    assert mac(SDK_SECRET, SDK_BODY).hex() == SDK_SHA256.removeprefix("sha256=")
