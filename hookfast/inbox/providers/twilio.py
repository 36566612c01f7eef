"""Twilio signs the called URL and the form's fields, with an HMAC-SHA-1 in X-Twilio-Signature.

https://www.twilio.com/docs/usage/webhooks/webhooks-security. Twilio supports no other hash; as an
HMAC, SHA-1 is not broken. The scheme does not sign a time, so a captured request stays valid, and
joins the fields without a separator, so the bytes can be split into other names and values.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from hookfast.errors import InvalidInput
from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.form import FORM, raw_pairs
from hookfast.inbox.hmac_check import (
    decode_signature,
    hmac_keys,
    hmac_signature,
    require_signature,
    signature_mismatch,
)
from hookfast.inbox.naming import event_name, event_type_from
from hookfast.inbox.options import PublicUrl
from hookfast.inbox.provider import Answer, Provider, Unsigned, member, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue

_HEADER = "X-Twilio-Signature"
_BODY_HASH = "bodySHA256"
_PORTS = {"http": 80, "https": 443}
_CLOUD_EVENT_PREFIX = "com.twilio."
_STATUS_FIELDS = (
    ("recording", "RecordingStatus"),
    ("message", "MessageStatus"),
    ("message", "SmsStatus"),
    ("call", "CallStatus"),
)
_NO_INSTRUCTIONS = Answer(
    status=200,
    content_type="text/xml",
    body=b'<?xml version="1.0" encoding="UTF-8"?><Response/>',
)
_ID_FIELDS = (
    ("RecordingSid", "RecordingStatus"),
    ("MessageSid", "MessageStatus"),
    ("SmsSid", "SmsStatus"),
    ("CallSid", "CallStatus", "SequenceNumber"),
)
"""Fields that together are unique; the first complete row applies. A call may have several
recordings."""


class Twilio(Provider):
    """Status callbacks and incoming messages and calls as forms, Event Streams as JSON. The secret
    is the account's auth token."""

    name = "twilio"
    title = "Twilio"
    sends_forms = True
    suggested_keys: ClassVar = {
        "twilio.message.*": "[MessageSid, MessageStatus || SmsStatus]",
        "twilio.call.*": "[CallSid, CallStatus, SequenceNumber]",
    }

    public_url: PublicUrl | None = Field(
        default=None,
        description="The URL configured at Twilio, if it differs from the one that Hookfast sees.",
    )

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        text = request.headers.required(_HEADER)
        raw = decode_signature(text, header=_HEADER, encoding="base64", hash_name="sha1")
        url = self._called_url(request.url)
        fields = _joined_fields(request.body) if request.content_type == FORM else b""
        # Depending on the product, Twilio signs the configured URL, the URL without its port, or
        # with the default port. Its own SDKs try both.
        messages = [variant.encode(errors="replace") + fields for variant in _url_variants(url)]
        require_signature([raw], keys, *messages, hash_name="sha1")
        _require_body_hash(request, url)

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        """Return Twilio's own token, or the id and status of a recording, message or call. None for
        other requests, which repeat their ids: a call in progress asks for digits more than once,
        and a message of a conversation is added and later updated."""
        token = request.headers.only("I-Twilio-Idempotency-Token")
        if token is not None:
            return usable_id(token)
        for names in _ID_FIELDS:
            parts = [member(payload, name) for name in names]
            if all(isinstance(part, str) and part for part in parts):
                return usable_id("/".join(map(str, parts)))
        return None

    def acknowledgement(self, request: InboundRequest, payload: JsonValue) -> Answer | None:
        """Return TwiML without instructions for a message or call. Twilio requires TwiML for
        incoming ones (otherwise error 12300) and ignores it for status callbacks. Products that
        send an `EventType` do not use TwiML."""
        is_message_or_call = any(
            member(payload, name) for name in ("MessageSid", "SmsSid", "CallSid")
        )
        return None if member(payload, "EventType") or not is_message_or_call else _NO_INSTRUCTIONS

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return `twilio.message.<status>`, `twilio.call.<status>` or `twilio.recording.<status>`;
        otherwise the `EventType`, or the `type` of a stream's single event, as an event type."""
        if isinstance(payload, list):
            kind = member(payload[0], "type") if len(payload) == 1 else None
            text = kind.removeprefix(_CLOUD_EVENT_PREFIX) if isinstance(kind, str) else None
            return event_type_from("twilio", text)
        for noun, name in _STATUS_FIELDS:
            status = member(payload, name)
            if status is not None:
                return event_name("twilio", noun, status)
        return event_type_from("twilio", member(payload, "EventType"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        fields = _joined_fields(unsigned.body) if unsigned.content_type == FORM else b""
        message = self._called_url(unsigned.url).encode() + fields
        text = hmac_signature(secret, message, hash_name="sha1", encoding="base64")
        return {_HEADER: text, "I-Twilio-Idempotency-Token": unsigned.id}

    def _called_url(self, url: str) -> str:
        """Return the URL that Twilio called: `public_url` with the query of this request, to which
        Twilio adds parameters for JSON bodies."""
        if self.public_url is None:
            return url
        query = url.partition("?")[2]
        return self.public_url.partition("?")[0] + (f"?{query}" if query else "")


def _joined_fields(body: bytes) -> bytes:
    """Join all distinct names and values of a form, sorted by name and then value. Their bytes need
    not be text: only a form that is verified is decoded."""
    try:
        pairs = sorted(set(raw_pairs(body)))
    except InvalidInput:  # more fields than are sorted for somebody who is not verified yet
        raise signature_mismatch() from None
    return b"".join(name + value for name, value in pairs)


def _url_variants(url: str) -> Iterable[str]:
    """Return the URL unchanged, and with its port removed or the default port added."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return [url]
    if port is not None:
        authority = parts.netloc.rpartition(":")[0]
    elif parts.netloc and parts.scheme in _PORTS:
        authority = f"{parts.netloc}:{_PORTS[parts.scheme]}"
    else:
        return [url]
    # replaced in the text, because formatting a parsed URL may change its spelling
    scheme, _, rest = url.partition("//")
    return [url, f"{scheme}//{authority}{rest.removeprefix(parts.netloc)}"]


def _require_body_hash(request: InboundRequest, url: str) -> None:
    """Check the SHA-256 in the URL's query, which signs a body that is not a form."""
    query = url.partition("?")[2].partition("#")[0]
    hashes = [value for name, value in parse_qsl(query) if name == _BODY_HASH]
    if not hashes and request.content_type == FORM:
        return
    if len(hashes) != 1:
        raise RequestRejected(
            "signature_missing",
            f"the URL must contain {_BODY_HASH} once when the body is not a form",
        )
    digest = hashlib.sha256(request.body).hexdigest()
    if not hmac.compare_digest(digest.encode(), hashes[0].encode(errors="replace")):
        raise signature_mismatch()
