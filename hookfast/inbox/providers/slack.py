"""Slack signs a version, the time and the body, with an HMAC in X-Slack-Signature.

https://docs.slack.dev/authentication/verifying-requests-from-slack/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.form import FORM
from hookfast.inbox.hmac_check import decode_signature, hmac_keys, hmac_signature, require_signature
from hookfast.inbox.media_type import JSON
from hookfast.inbox.naming import event_name
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import Answer, Provider, Unsigned, member, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.inbox.signed_time import parse_time, require_fresh
from hookfast.strict_json.parser import JsonValue

_SIGNATURE = "X-Slack-Signature"
_TIMESTAMP = "X-Slack-Request-Timestamp"
_VERSION = "v0"  # the only version
_MAX_CHALLENGE = 1000


class Slack(Provider):
    """The Events API, slash commands and interactivity. The secret is the app's signing secret."""

    name = "slack"
    title = "Slack"
    sends_forms = True
    json_field = "payload"  # of interactivity; for a command, the form is the payload
    suggested_keys: ClassVar = {
        "slack.message.*": "[team_id, event.channel, event.ts, event.subtype || 'message']"
    }

    tolerance_seconds: Tolerance = 300

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        text = request.headers.required(_SIGNATURE)
        timestamp = request.headers.required(_TIMESTAMP)
        parse_time(timestamp, header=_TIMESTAMP)
        raw = decode_signature(text, header=_SIGNATURE, prefix=f"{_VERSION}=")
        message = f"{_VERSION}:{timestamp}:".encode() + request.body
        require_signature([raw], keys, message)
        require_fresh(
            timestamp, header=_TIMESTAMP, now=now, tolerance_seconds=self.tolerance_seconds
        )

    def answer(self, request: InboundRequest, payload: JsonValue) -> Answer | None:
        """Return the challenge with which Slack checks a new request URL."""
        challenge = member(payload, "challenge")
        if member(payload, "type") != "url_verification" or not isinstance(challenge, str):
            return None
        # as JSON, so that no browser renders the challenge as a page
        body = json.dumps({"challenge": challenge[:_MAX_CHALLENGE]}).encode()
        return Answer(status=200, content_type=JSON, body=body)

    def acknowledgement(self, request: InboundRequest, payload: JsonValue) -> Answer | None:
        """Return an empty answer to commands and interactivity: Slack shows a command's answer to
        the user, and a view follows the `response_action` in its answer."""
        return Answer(status=200) if request.content_type == FORM else None

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        return usable_id(member(payload, "event_id") or member(payload, "trigger_id"))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return `slack.<event>.<subtype>` for an event (`received` without a subtype),
        `slack.slash_command.<command>` or `slack.interaction.<type>`."""
        command = member(payload, "command")
        if command is not None:
            return event_name("slack", "slash_command", command)
        kind = member(payload, "type")
        if kind == "event_callback":
            event = member(payload, "event", "type")
            return event_name("slack", event, member(payload, "event", "subtype"))
        if request.content_type == FORM:
            return event_name("slack", "interaction", kind)
        return event_name("slack", kind)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        message = f"{_VERSION}:{unsigned.timestamp}:".encode() + unsigned.body
        return {
            _TIMESTAMP: str(unsigned.timestamp),
            _SIGNATURE: f"{_VERSION}={hmac_signature(secret, message)}",
        }
