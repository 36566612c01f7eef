"""Slack's signatures, against the vector of its documentation and its SDK."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from hookfast.inbox import provider
from tests.unit.inbox.requests import ACCEPTED, FORM, TIME, form, mac, outcome, received

SLACK = provider("slack")

# https://docs.slack.dev/authentication/verifying-requests-from-slack/ and
# https://github.com/slackapi/python-slack-sdk: tests/slack_sdk/signature/test_signature_verifier.py
DOCS_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
DOCS_TIME = "1531420618"
DOCS_NOW = datetime.fromtimestamp(int(DOCS_TIME), UTC)
DOCS_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
DOCS_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"
    b"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

SECRET = "0123456789abcdef0123456789abcdef"
BODY = b'{"type":"event_callback"}'


def signature(*, timestamp: str = str(TIME), body: bytes = BODY, secret: str = SECRET) -> str:
    return "v0=" + mac(secret, f"v0:{timestamp}:".encode() + body).hex()


def test_the_vector_of_the_documentation_is_accepted() -> None:
    request = received(
        {"X-Slack-Signature": DOCS_SIGNATURE, "X-Slack-Request-Timestamp": DOCS_TIME},
        DOCS_BODY,
        content_type=FORM,
    )
    assert outcome(SLACK, request, DOCS_SECRET, now=DOCS_NOW) == ACCEPTED
    payload = SLACK.payload(request)
    assert isinstance(payload, dict)
    assert payload["command"] == "/webhook-collect"
    assert payload["text"] == ""
    assert SLACK.event_type(request, payload) == "slack.slash_command.webhook_collect"
    assert SLACK.delivery_id(request, payload) == payload["trigger_id"]


GOOD = signature()


@pytest.mark.parametrize(
    ("given", "timestamp", "code"),
    [
        (GOOD, str(TIME), ACCEPTED),
        (GOOD, str(TIME + 1), "signature_mismatch"),
        (GOOD, f"{TIME}.0", "timestamp_malformed"),
        (signature(timestamp=f"+{TIME}"), f"+{TIME}", "timestamp_malformed"),
        (GOOD.removeprefix("v0="), str(TIME), "signature_malformed"),
        (GOOD.replace("v0", "v1"), str(TIME), "signature_malformed"),
        (GOOD.replace("v0", "V0"), str(TIME), "signature_malformed"),
        (signature(body=BODY + b"------"), str(TIME), "signature_mismatch"),
        (signature(secret="other"), str(TIME), "signature_mismatch"),
        # time and body are separated by a colon, so neither can take bytes from the other
        ("v0=" + mac(SECRET, f"v0:{TIME}".encode() + BODY).hex(), str(TIME), "signature_mismatch"),
    ],
)
def test_only_the_signature_of_time_and_body_is_accepted(
    given: str, timestamp: str, code: str
) -> None:
    headers = {"X-Slack-Signature": given, "X-Slack-Request-Timestamp": timestamp}
    assert outcome(SLACK, received(headers, BODY), SECRET) == code


def test_the_challenge_is_returned_as_json() -> None:
    payload = {"token": "t", "challenge": "3eZbrw1aB<b>", "type": "url_verification"}
    answer = SLACK.answer(received({}), payload)
    assert answer is not None
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == {"challenge": "3eZbrw1aB<b>"}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        [],
        None,
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": 7},
        {"type": "event_callback", "challenge": "x"},
    ],
)
def test_other_requests_are_not_answered_immediately(payload: object) -> None:
    assert SLACK.answer(received({}), payload) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (
            {"type": "event_callback", "event": {"type": "app_mention"}},
            "slack.app_mention.received",
        ),
        (
            {"type": "event_callback", "event": {"type": "message", "subtype": "channel_join"}},
            "slack.message.channel_join",
        ),
        ({"type": "event_callback", "event": 1}, "slack.event.received"),
        ({"type": "app_rate_limited"}, "slack.app_rate_limited.received"),
        ({}, "slack.event.received"),
    ],
)
def test_the_event_type_is_from_the_type_and_subtype(payload: dict[str, object], name: str) -> None:
    assert SLACK.event_type(received({}), payload) == name  # type: ignore[arg-type]


def test_interactivity_is_parsed_from_json_in_a_form() -> None:
    body = form({"payload": json.dumps({"type": "block_actions", "trigger_id": "1.2"})})
    request = received({}, body, content_type=FORM)
    payload = SLACK.payload(request)
    assert SLACK.event_type(request, payload) == "slack.interaction.block_actions"
    assert SLACK.delivery_id(request, payload) == "1.2"


def test_a_retried_event_has_the_same_id() -> None:
    payload = {"type": "event_callback", "event_id": "Ev0PV52K25"}
    assert SLACK.delivery_id(received({"X-Slack-Retry-Num": "1"}), payload) == "Ev0PV52K25"


def test_commands_are_answered_with_an_empty_body_and_events_are_not() -> None:
    command = received({}, form({"command": "/deploy"}), content_type=FORM)
    told = SLACK.acknowledgement(command, SLACK.payload(command))
    assert told is not None
    assert (told.status, told.body) == (200, b"")
    assert SLACK.acknowledgement(received({}, BODY), {"type": "event_callback"}) is None
