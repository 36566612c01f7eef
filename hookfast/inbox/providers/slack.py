"""Slack: X-Slack-Signature, an HMAC over a version, the time and the body.

https://docs.slack.dev/authentication/verifying-requests-from-slack/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from hookfast.inbox.form import FORM, JSON, form_object, json_field
from hookfast.inbox.hmac_check import decoded, keys_of, require_match, signature
from hookfast.inbox.naming import event_name
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import Answer, Provider, Unsigned, member, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.inbox.signed_time import parse_time, require_fresh
from hookfast.strict_json.parser import JsonValue

_SIGNATURE = "X-Slack-Signature"
_TIMESTAMP = "X-Slack-Request-Timestamp"
_VERSION = "v0"  # the only one there is
_MAX_CHALLENGE = 1000


class Slack(Provider):
    """The Events API, slash commands and interactivity. The secret is the app's signing secret."""

    name = "slack"
    content_types = frozenset({JSON, FORM})
    suggested_keys: ClassVar = {
        "slack.message.*": "[team_id, event.channel, event.ts, event.subtype || 'message']"
    }

    tolerance_seconds: Tolerance = 300

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        text = received.headers.required(_SIGNATURE)
        timestamp = received.headers.required(_TIMESTAMP)
        parse_time(timestamp, header=_TIMESTAMP)
        if not text.startswith(f"{_VERSION}="):
            raise Refused("signature_malformed", f"{_SIGNATURE} does not begin with {_VERSION}=")
        raw = decoded(text.removeprefix(f"{_VERSION}="), header=_SIGNATURE, encoding="hex")
        message = f"{_VERSION}:{timestamp}:".encode() + received.body
        require_match([raw], keys, message)
        require_fresh(
            timestamp,
            header=_TIMESTAMP,
            now=now,
            tolerance=timedelta(seconds=self.tolerance_seconds),
        )

    def payload(self, received: Received) -> JsonValue:
        if received.content_type != FORM:
            return super().payload(received)
        fields = form_object(received.body)
        # interactivity puts JSON into one field; a command is the form itself
        return json_field(received.body, "payload") if "payload" in fields else dict(fields)

    def answer(self, received: Received, payload: JsonValue) -> Answer | None:
        """The challenge with which Slack checks a new request URL, sent back."""
        challenge = member(payload, "challenge")
        if member(payload, "type") != "url_verification" or not isinstance(challenge, str):
            return None
        # as JSON: whatever the challenge is, no browser takes it for a page
        body = json.dumps({"challenge": challenge[:_MAX_CHALLENGE]}).encode()
        return Answer(status=200, content_type=JSON, body=body)

    def acknowledgement(self, received: Received, payload: JsonValue) -> Answer | None:
        """Nothing, for commands and interactivity: the user is shown what a command is answered,
        and a view does what it says (`response_action`)."""
        return Answer(status=200) if received.content_type == FORM else None

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        return usable_id(member(payload, "event_id") or member(payload, "trigger_id"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`slack.<event>.<subtype>` for events, `slack.slash_command.<command>`,
        `slack.interaction.<type>`; `received` where there is no subtype."""
        command = member(payload, "command")
        if command is not None:
            return event_name("slack", "slash_command", command)
        kind = member(payload, "type")
        if kind == "event_callback":
            event = member(payload, "event", "type")
            return event_name("slack", event, member(payload, "event", "subtype"))
        if FORM in (received.headers.only("Content-Type") or "").lower():
            return event_name("slack", "interaction", kind)
        return event_name("slack", kind)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        message = f"{_VERSION}:{unsigned.timestamp}:".encode() + unsigned.body
        return {
            _TIMESTAMP: str(unsigned.timestamp),
            _SIGNATURE: f"{_VERSION}={signature(secret, message)}",
        }
