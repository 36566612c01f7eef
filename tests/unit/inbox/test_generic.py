"""The generic provider, also with the schemes and vectors of other providers."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA1, SHA384, SHA512, HashAlgorithm

from hookfast.errors import InvalidInput
from hookfast.inbox import Provider, UnsupportedContentType, delivery_key, provider
from tests.unit.inbox import test_github, test_slack
from tests.unit.inbox.requests import (
    ACCEPTED,
    FORM,
    TIME,
    URL,
    b64,
    mac,
    outcome,
    received,
)

SECRET = "a secret of sixteen or more"
BODY = b'{"id":"o_1","kind":"order.created","braces":"{timestamp}"}'


def generic(**options: Any) -> Provider:
    return provider("generic", {"signature_header": "X-Signature"} | options)


PLAIN = generic()
TIMED = generic(message="{timestamp}.{body}", timestamp_header="X-Time")


def test_generic_options_can_describe_githubs_scheme() -> None:
    github = generic(signature_header="X-Hub-Signature-256", prefix="sha256=")
    request = received({"x-hub-signature-256": test_github.DOCS}, test_github.DOCS_BODY)
    assert outcome(github, request, test_github.DOCS_SECRET) == ACCEPTED


def test_generic_options_can_describe_slacks_scheme() -> None:
    slack = generic(
        signature_header="X-Slack-Signature",
        prefix="v0=",
        message="v0:{timestamp}:{body}",
        timestamp_header="X-Slack-Request-Timestamp",
    )
    headers = {
        "X-Slack-Signature": test_slack.DOCS_SIGNATURE,
        "X-Slack-Request-Timestamp": test_slack.DOCS_TIME,
    }
    request = received(headers, test_slack.DOCS_BODY, content_type=FORM)
    assert outcome(slack, request, test_slack.DOCS_SECRET, now=test_slack.DOCS_NOW) == ACCEPTED


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("sha1", SHA1()), ("sha384", SHA384()), ("sha512", SHA512())],  # noqa: S303 - supported
)
@pytest.mark.parametrize("encoding", ["hex", "base64", "base64url"])
def test_every_hash_works_in_every_encoding(
    name: str, algorithm: HashAlgorithm, encoding: str
) -> None:
    raw = mac(SECRET, BODY, algorithm)
    text = raw.hex() if encoding == "hex" else b64(raw)
    if encoding == "base64url":
        text = text.replace("+", "-").replace("/", "_")
    one = generic(hash=name, encoding=encoding)
    assert outcome(one, received({"X-Signature": text}, BODY), SECRET) == ACCEPTED
    # another hash has another length
    assert outcome(PLAIN, received({"X-Signature": raw.hex()}, BODY), SECRET) == (
        "signature_malformed"
    )


@pytest.mark.parametrize(
    ("message", "signed"),
    [
        ("{body}", BODY),
        ("{id}.{timestamp}.{body}", b"o_1.%d.%b" % (TIME, BODY)),
        ("{method}{url}{body}{timestamp}", b"POST%b%b%d" % (URL.encode(), BODY, TIME)),
        ("v1:{timestamp}:{body}:end", b"v1:%d:%b:end" % (TIME, BODY)),
    ],
)
def test_the_signed_message_follows_the_template(message: str, signed: bytes) -> None:
    options: dict[str, Any] = {"message": message, "id_header": "X-Id"}
    if "{timestamp}" in message:
        options["timestamp_header"] = "X-Time"
    headers = {
        "X-Signature": mac(SECRET, signed).hex(),
        "X-Id": "o_1",
        "X-Time": str(TIME),
    }
    assert outcome(generic(**options), received(headers, BODY), SECRET) == ACCEPTED
    assert outcome(generic(**options), received(headers, BODY + b"}"), SECRET) == (
        "signature_mismatch"
    )


def timed(timestamp: str) -> dict[str, str]:
    return {
        "X-Time": timestamp,
        "X-Signature": mac(SECRET, timestamp.encode() + b"." + BODY).hex(),
    }


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (timed(str(TIME)), ACCEPTED),
        (timed(str(TIME)) | {"X-Time": str(TIME + 1)}, "signature_mismatch"),
        (timed(f" {TIME}"), "timestamp_malformed"),
        (timed("9" * 30), "timestamp_malformed"),
    ],
)
def test_a_signed_time_must_be_the_one_in_its_header(headers: dict[str, str], code: str) -> None:
    assert outcome(TIMED, received(headers, BODY), SECRET) == code


def test_the_time_can_be_in_milliseconds() -> None:
    one = generic(
        message="{timestamp}.{body}", timestamp_header="X-Time", timestamp_unit="milliseconds"
    )
    assert outcome(one, received(timed(f"{TIME}250"), BODY), SECRET) == ACCEPTED
    assert outcome(one, received(timed(str(TIME)), BODY), SECRET) == "timestamp_out_of_tolerance"


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"signature_header": None}, "/options/signature_header"),
        ({"signature_header": ""}, "/options/signature_header"),
        ({"signature_header": "X Signature"}, "/options/signature_header"),
        ({"signature_header": "X-Signature:"}, "/options/signature_header"),
        ({"signature_header": "X-Signature\n"}, "/options/signature_header"),
        ({"hash": "md5"}, "/options/hash"),
        ({"encoding": "base32"}, "/options/encoding"),
        ({"prefix": "with blank "}, "/options/prefix"),
        ({"prefix": "p" * 41}, "/options/prefix"),
        ({"message": ""}, "/options"),
        ({"message": "{timestamp}"}, "/options"),
        ({"message": "{body}{body}"}, "/options"),
        ({"message": "{body}.{nonce}"}, "/options"),
        ({"message": "{body}.{timestamp}"}, "/options"),
        ({"message": "{body"}, "/options"),
        ({"message": "{{body}}"}, "/options"),
        ({"message": "{body}.{id}"}, "/options"),
        ({"message": "{body.__class__}"}, "/options"),
        ({"timestamp_header": "X-Time"}, "/options"),  # not signed
        ({"tolerance_seconds": 0}, "/options/tolerance_seconds"),
        ({"tolerance_seconds": 3601}, "/options/tolerance_seconds"),
        ({"id_header": "X-Id", "id_expression": "id"}, "/options"),
        ({"id_expression": "]"}, "/options/id_expression"),
        ({"type_expression": "sort_by(@, &a)"}, "/options/type_expression"),
        ({"type_header": "X-Type", "fixed_type": "a.b.c"}, "/options"),
        ({"fixed_type": "a.B"}, "/options/fixed_type"),
        ({"fixed_type": "hookfast.endpoint.disabled"}, "/options/fixed_type"),
        ({"namespace": "hookfast"}, "/options/namespace"),
        ({"sekret": "hunter2hunter2"}, "/options/sekret"),
        ({"a/b~c": 1}, "/options/a~1b~0c"),
    ],
)
def test_invalid_options_are_rejected_at_their_place(options: dict[str, Any], pointer: str) -> None:
    given = {"signature_header": "X-Signature"} | options
    with pytest.raises(InvalidInput) as rejected:
        provider("generic", {name: value for name, value in given.items() if value is not None})
    assert rejected.value.code == "invalid_options"
    assert pointer in [error.pointer for error in rejected.value.errors]
    assert "hunter2" not in str(rejected.value.errors) + rejected.value.message


def test_an_unknown_option_is_rejected_with_the_list_of_options() -> None:
    with pytest.raises(InvalidInput, match="unknown option; github has: allow_sha1"):
        provider("github", {"allow_sha_1": True})
    with pytest.raises(InvalidInput, match="unknown option; bitbucket has: none"):
        provider("bitbucket", {"x": 1})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "generic.event.received"),
        ({"namespace": "acme"}, "acme.event.received"),
        ({"fixed_type": "acme.order.changed"}, "acme.order.changed"),
        ({"type_header": "X-Kind"}, "generic.invoice.paid"),
        ({"type_header": "X-Other"}, "generic.event.received"),
        ({"type_expression": "kind"}, "generic.order.created"),
        ({"type_expression": "join('.', ['a', kind])"}, "generic.a_order.created"),
        ({"type_expression": "id", "namespace": "acme"}, "acme.o_1.received"),
        ({"type_expression": "missing.member"}, "generic.event.received"),
        ({"type_expression": "@"}, "generic.event.received"),
    ],
)
def test_the_event_type_comes_from_the_options_a_header_or_the_body(
    options: dict[str, Any], expected: str
) -> None:
    one = generic(**options)
    request = received({"X-Kind": "Invoice/Paid"}, BODY)
    assert one.event_type(request, one.payload(request)) == expected


def test_the_delivery_id_comes_from_a_header_or_the_body() -> None:
    request = received({"X-Id": "h_1"}, BODY)
    payload = PLAIN.payload(request)
    assert PLAIN.delivery_id(request, payload) is None
    assert generic(id_header="X-Id").delivery_id(request, payload) == "h_1"
    assert generic(id_expression="id").delivery_id(request, payload) == "o_1"
    assert generic(id_expression="missing").delivery_id(request, payload) is None


def test_content_types_that_the_operator_lists_are_accepted() -> None:
    sns = generic(content_types=["Text/Plain"])
    for content_type in ("text/plain", "TEXT/plain; charset=UTF-8", "application/json", FORM):
        sns.check_content_type(received({}, content_type=content_type))
    with pytest.raises(UnsupportedContentType, match="text/plain"):
        sns.check_content_type(received({}, content_type="text/html"))
    assert sns.payload(received({}, b'{"Type":"Notification"}', content_type="text/plain")) == {
        "Type": "Notification"
    }


@pytest.mark.parametrize("wrong", ["text", "text/plain; charset=utf-8", "a b/c", "text/ü", ""])
def test_a_listed_content_type_is_a_media_type_without_parameters(wrong: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        generic(content_types=[wrong])
    assert rejected.value.errors[0].pointer == "/options/content_types/0"


def test_equal_bodies_that_are_signed_at_different_times_are_different_requests() -> None:
    timed = generic(message="{timestamp}.{body}", timestamp_header="X-Time")
    first, again, later = (received({"X-Time": time}) for time in ("1700000000",) * 2 + ("17",))
    key = delivery_key(timed, first, payload={})
    assert key == f"time:1700000000/{first.content_key}"
    assert delivery_key(timed, again, payload={}) == key
    assert delivery_key(timed, later, payload={}) != key
    assert delivery_key(PLAIN, first, payload={}) == first.content_key
