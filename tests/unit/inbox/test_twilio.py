"""Twilio's signatures, against the vectors of its Python SDK."""

from __future__ import annotations

import hashlib
from xml.etree import ElementTree

import pytest
from cryptography.hazmat.primitives.hashes import SHA1

from hookfast.errors import InvalidInput
from hookfast.inbox import BusinessKeys, provider
from tests.unit.inbox.requests import ACCEPTED, FORM, JSON, b64, form, mac, outcome, received

TWILIO = provider("twilio")

# https://github.com/twilio/twilio-python: tests/unit/test_request_validator.py
SDK_SECRET = "12345"
SDK_URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
SDK_FIELDS = {
    "CallSid": "CA1234567890ABCDE",
    "Digits": "1234",
    "From": "+14158675309",
    "To": "+18005551212",
    "Caller": "+14158675309",
}
SDK_SIGNATURE = "RSOYDt4T1cUTdK1PDd93/VVr8B8="
SDK_JSON = b'{"property": "value", "boolean": true}'
SDK_JSON_URL = (
    f"{SDK_URL}&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
)


def signature(url: str, fields: str = "", secret: str = SDK_SECRET) -> str:
    return b64(mac(secret, (url + fields).encode(), SHA1()))  # noqa: S303 - Twilio's only hash


@pytest.mark.parametrize(
    ("url", "given"),
    [
        (SDK_URL, SDK_SIGNATURE),
        (SDK_URL.replace(".com", ".com:1234"), SDK_SIGNATURE),
        (
            SDK_URL.replace(".com", ".com:1234").replace("https", "http"),
            "Zmvh+3yNM1Phv2jhDCwEM3q5ebU=",
        ),
        (SDK_URL, "kvajT1Ptam85bY51eRf/AJRuM3w="),  # signed with the port 443
        (SDK_URL.replace("https", "http"), "0ZXoZLH/DfblKGATFgpif+LLRf4="),  # with the port 80
    ],
)
def test_the_vectors_of_the_sdk_are_accepted(url: str, given: str) -> None:
    request = received({"X-Twilio-Signature": given}, form(SDK_FIELDS), url=url, content_type=FORM)
    assert outcome(TWILIO, request, SDK_SECRET) == ACCEPTED


def test_the_vector_with_a_repeated_field_is_accepted() -> None:
    body = b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234"
    request = received(
        {"X-Twilio-Signature": "IK+Dwps556ElfBT0I3Rgjkr1wJU="}, body, url=SDK_URL, content_type=FORM
    )
    assert outcome(TWILIO, request, SDK_SECRET) == ACCEPTED
    assert TWILIO.payload(request) == {
        "Sid": "CA123",
        "SidAccount": "AC123",
        "Digits": ["5678", "1234"],
    }


def test_the_vector_with_a_json_body_is_accepted() -> None:
    request = received(
        {"X-Twilio-Signature": "a9nBmqA0ju/hNViExpshrM61xv4="}, SDK_JSON, url=SDK_JSON_URL
    )
    assert outcome(TWILIO, request, SDK_SECRET) == ACCEPTED


@pytest.mark.parametrize(
    ("url", "body", "content_type", "given", "code"),
    [
        (SDK_URL, form(SDK_FIELDS), FORM, SDK_SIGNATURE[:-1], "signature_malformed"),
        (SDK_URL, form(SDK_FIELDS), FORM, SDK_SIGNATURE.swapcase(), "signature_mismatch"),
        (SDK_URL, form(SDK_FIELDS | {"To": "+1"}), FORM, SDK_SIGNATURE, "signature_mismatch"),
        (SDK_URL, form(SDK_FIELDS | {"Extra": ""}), FORM, SDK_SIGNATURE, "signature_mismatch"),
        (SDK_URL, b"", FORM, SDK_SIGNATURE, "signature_mismatch"),
        (SDK_URL, b"%zz=\xff", FORM, SDK_SIGNATURE, "signature_mismatch"),
        (SDK_URL + "&x=1", form(SDK_FIELDS), FORM, SDK_SIGNATURE, "signature_mismatch"),
        (
            SDK_URL.replace("mycompany", "other"),
            form(SDK_FIELDS),
            FORM,
            SDK_SIGNATURE,
            "signature_mismatch",
        ),
        # only the hash in the signed URL signs JSON
        (SDK_URL, SDK_JSON, JSON, signature(SDK_URL), "signature_missing"),
        (SDK_JSON_URL, SDK_JSON + b" ", JSON, signature(SDK_JSON_URL), "signature_mismatch"),
        (
            f"{SDK_JSON_URL}&bodySHA256={hashlib.sha256(b'[]').hexdigest()}",
            b"[]",
            JSON,
            signature(f"{SDK_JSON_URL}&bodySHA256={hashlib.sha256(b'[]').hexdigest()}"),
            "signature_missing",
        ),
        # a signed JSON request replayed as an empty form
        (SDK_JSON_URL, b"", FORM, signature(SDK_JSON_URL), "signature_mismatch"),
        # a signed form replayed as JSON
        (SDK_URL, SDK_JSON, JSON, SDK_SIGNATURE, "signature_mismatch"),
    ],
)
def test_a_changed_request_is_rejected(
    url: str, body: bytes, content_type: str, given: str, code: str
) -> None:
    request = received({"X-Twilio-Signature": given}, body, url=url, content_type=content_type)
    assert outcome(TWILIO, request, SDK_SECRET) == code


def test_the_public_url_is_verified_behind_a_proxy() -> None:
    behind = provider("twilio", {"public_url": "https://public.example/hooks"})
    body = form({"MessageSid": "SM1"})
    given = signature("https://public.example/hooks?a=1", "MessageSidSM1")
    request = received(
        {"X-Twilio-Signature": given},
        body,
        url="http://10.0.0.7:8080/in/src_1?a=1",
        content_type=FORM,
    )
    assert outcome(behind, request, SDK_SECRET) == ACCEPTED
    assert outcome(TWILIO, request, SDK_SECRET) == "signature_mismatch"


@pytest.mark.parametrize(
    "url", ["", "hooks.example", "ftp://a", "https://", "https://a b", "https://[", "https://ü.de"]
)
def test_an_invalid_public_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        provider("twilio", {"public_url": url})
    assert rejected.value.errors[0].pointer == "/options/public_url"


@pytest.mark.parametrize(
    "url", ["", "//", "https://[::1", "https://a:b/c", "https://a:99999/", "é"]
)
def test_unusual_urls_are_rejected_without_another_error(url: str) -> None:
    request = received(
        {"X-Twilio-Signature": SDK_SIGNATURE}, form(SDK_FIELDS), url=url, content_type=FORM
    )
    assert outcome(TWILIO, request, SDK_SECRET) == "signature_mismatch"


def test_the_default_port_is_inserted_after_the_host() -> None:
    given = signature("https://http:443/in", "a1")
    request = received(
        {"X-Twilio-Signature": given}, b"a=1", url="https://http/in", content_type=FORM
    )
    assert outcome(TWILIO, request, SDK_SECRET) == ACCEPTED


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"MessageSid": "SM1", "MessageStatus": "delivered"}, "twilio.message.delivered"),
        ({"MessageSid": "SM1", "SmsStatus": "received"}, "twilio.message.received"),
        ({"CallSid": "CA1", "CallStatus": "in-progress"}, "twilio.call.in_progress"),
        (
            {"CallSid": "CA1", "RecordingSid": "RE1", "RecordingStatus": "completed"},
            "twilio.recording.completed",
        ),
        ({"EventType": "task.created"}, "twilio.task.created"),
        ({"EventType": "onMessageAdded"}, "twilio.onmessageadded.received"),
        (
            [{"type": "com.twilio.messaging.message.delivered"}],
            "twilio.messaging_message.delivered",
        ),
        ([{"type": "a.b"}, {"type": "a.c"}], "twilio.event.received"),
        ([], "twilio.event.received"),
        ({}, "twilio.event.received"),
    ],
)
def test_the_event_type_is_from_the_status(payload: object, name: str) -> None:
    assert TWILIO.event_type(received({}), payload) == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({"MessageSid": "SM1", "MessageStatus": "sent"}, "SM1/sent"),
        ({"SmsSid": "SM1", "SmsStatus": "received"}, "SM1/received"),
        (
            {"CallSid": "CA1", "CallStatus": "completed", "SequenceNumber": "3"},
            "CA1/completed/3",
        ),
        # one call has several recordings
        (
            {"CallSid": "CA1", "RecordingSid": "RE2", "RecordingStatus": "completed"},
            "RE2/completed",
        ),
        # a call in progress is asked for digits repeatedly, and also transcribed
        ({"CallSid": "CA1", "CallStatus": "in-progress", "Digits": "1"}, None),
        (
            {
                "CallSid": "CA1",
                "CallStatus": "completed",
                "RecordingSid": "RE1",
                "RecordingUrl": "",
            },
            None,
        ),
        # a message of a conversation is added and later updated
        ({"MessageSid": "IM1", "EventType": "onMessageAdded"}, None),
        ({"MessageSid": ["SM1", "SM2"], "MessageStatus": "sent"}, None),
        ({"MessageSid": "SM1", "MessageStatus": ["sent", "read"]}, None),
        ({}, None),
        ([], None),
    ],
)
def test_the_delivery_id_is_a_resource_and_its_status_if_unique(
    payload: object, found: str | None
) -> None:
    assert TWILIO.delivery_id(received({}), payload) == found  # type: ignore[arg-type]


def test_the_delivery_id_is_twilios_token_if_sent() -> None:
    token = received({"I-Twilio-Idempotency-Token": "2a3b"})
    assert TWILIO.delivery_id(token, {"MessageSid": "SM1", "MessageStatus": "sent"}) == "2a3b"


def test_two_answers_of_one_caller_have_different_keys() -> None:
    keys = BusinessKeys.parse("suggested", provider=TWILIO, pointer="")
    gathered = {"CallSid": "CA1", "CallStatus": "in-progress", "Digits": "1"}
    assert keys.key("twilio.call.in_progress", gathered) is None
    progress = {"CallSid": "CA1", "CallStatus": "in-progress", "SequenceNumber": "1"}
    assert keys.key("twilio.call.in_progress", progress) is not None


@pytest.mark.parametrize(
    ("payload", "is_twiml"),
    [
        ({"MessageSid": "SM1", "SmsStatus": "received"}, True),
        ({"CallSid": "CA1", "CallStatus": "ringing"}, True),
        ({"MessageSid": "IM1", "EventType": "onMessageAdd"}, False),
        ({"AssignmentStatus": "pending", "TaskSid": "WT1"}, False),
        ([{"type": "com.twilio.messaging.message.delivered"}], False),
    ],
)
def test_messages_and_calls_get_twiml_without_instructions(payload: object, is_twiml: bool) -> None:
    told = TWILIO.acknowledgement(received({}), payload)  # type: ignore[arg-type]
    assert (told is not None) is is_twiml
    if told is not None:
        assert told.content_type == "text/xml"
        assert ElementTree.fromstring(told.body).tag == "Response"  # noqa: S314 - our own bytes
