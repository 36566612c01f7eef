"""Twilio: X-Twilio-Signature, an HMAC-SHA-1 over the URL it called and the form's fields.

https://www.twilio.com/docs/usage/webhooks/webhooks-security. SHA-1 is all there is; as an HMAC it
is not broken. What the scheme lacks: it signs no time, so a captured request stays valid, and the
fields are joined without a separator, so its bytes can be split into other names and values.
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
from hookfast.inbox.form import FORM, JSON, form_object, form_pairs
from hookfast.inbox.hmac_check import decoded, keys_of, mismatch, require_any, signature
from hookfast.inbox.naming import event_name, folded
from hookfast.inbox.options import PublicUrl
from hookfast.inbox.provider import Answer, Provider, Unsigned, member, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.strict_json.parser import JsonValue

_HEADER = "X-Twilio-Signature"
_BODY_HASH = "bodySHA256"
_PORTS = {"http": 80, "https": 443}
_CLOUD_EVENT_PREFIX = "com.twilio."
_KINDS = (
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
_ONCE = (
    ("RecordingSid", "RecordingStatus"),
    ("MessageSid", "MessageStatus"),
    ("SmsSid", "SmsStatus"),
    ("CallSid", "CallStatus", "SequenceNumber"),
)
"""Fields that together come once, the first that are all there: a call has several recordings."""


class Twilio(Provider):
    """Status callbacks and incoming messages and calls as forms, Event Streams as JSON. The secret
    is the account's auth token."""

    name = "twilio"
    content_types = frozenset({JSON, FORM})
    suggested_keys: ClassVar = {
        "twilio.message.*": "[MessageSid, MessageStatus || SmsStatus]",
        "twilio.call.*": "[CallSid, CallStatus, SequenceNumber]",
    }

    public_url: PublicUrl | None = Field(
        default=None,
        description="The URL as it is set at Twilio, where it differs from the one Hookfast sees.",
    )

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        text = received.headers.required(_HEADER)
        raw = decoded(text, header=_HEADER, encoding="base64", hash_name="sha1")
        url = self._called(received.url)
        fields = b"" if received.content_type == JSON else _joined(received.body)
        # ports first: Twilio signs the URL as it is set there, or without the port, or with the
        # default one, depending on the product; its own SDKs try both
        messages = [variant.encode(errors="replace") + fields for variant in _variants(url)]
        require_any([raw], keys, messages, hash_name="sha1")
        _require_body_hash(received, url)

    def payload(self, received: Received) -> JsonValue:
        if received.content_type == FORM:
            return dict(form_object(received.body))
        return super().payload(received)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        """Twilio's own token; else a recording, a message or a step of a call, and its status. None
        for the rest: a call in progress asks for digits more than once, and one message of a
        conversation is added and updated, under the same ids."""
        token = received.headers.only("I-Twilio-Idempotency-Token")
        if token is not None:
            return usable_id(token)
        for names in _ONCE:
            parts = [member(payload, name) for name in names]
            if all(isinstance(part, str) and part for part in parts):
                return usable_id("/".join(map(str, parts)))
        return None

    def acknowledgement(self, received: Received, payload: JsonValue) -> Answer | None:
        """No instructions, for a message or a call: Twilio wants TwiML for those that come in (else
        error 12300) and ignores it for status callbacks. Products that name an `EventType`
        speak no TwiML."""
        of_phone = any(member(payload, name) for name in ("MessageSid", "SmsSid", "CallSid"))
        return None if member(payload, "EventType") or not of_phone else _NO_INSTRUCTIONS

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`twilio.message.<status>`, `twilio.call.<status>`, `twilio.recording.<status>`; the
        `EventType` of other products and the `type` of a single event of a stream, folded."""
        if isinstance(payload, list):
            kind = member(payload[0], "type") if len(payload) == 1 else None
            text = kind.removeprefix(_CLOUD_EVENT_PREFIX) if isinstance(kind, str) else None
            return folded("twilio", text)
        for noun, name in _KINDS:
            status = member(payload, name)
            if status is not None:
                return event_name("twilio", noun, status)
        return folded("twilio", member(payload, "EventType"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        fields = _joined(unsigned.body) if unsigned.content_type == FORM else b""
        message = self._called(unsigned.url).encode() + fields
        text = signature(secret, message, hash_name="sha1", encoding="base64")
        return {_HEADER: text, "I-Twilio-Idempotency-Token": unsigned.id}

    def _called(self, url: str) -> str:
        """The URL as Twilio has it: `public_url` with the query of this call, which for JSON holds
        what Twilio added to it."""
        if self.public_url is None:
            return url
        query = url.partition("?")[2]
        return self.public_url.partition("?")[0] + (f"?{query}" if query else "")


def _joined(body: bytes) -> bytes:
    """Every field's name and value, sorted by name and then value, the same pair once."""
    try:
        pairs = sorted(set(form_pairs(body)))
    except InvalidInput:  # then it is no form that Twilio signed
        raise mismatch() from None
    return "".join(name + value for name, value in pairs).encode()


def _variants(url: str) -> Iterable[str]:
    """The URL as it is, and with the default port added or its port taken away."""
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
    # in the text: putting a parsed URL together again may spell it in another way
    scheme, _, rest = url.partition("//")
    return [url, f"{scheme}//{authority}{rest.removeprefix(parts.netloc)}"]


def _require_body_hash(received: Received, url: str) -> None:
    """A body that is no form is signed by its SHA-256 in the URL's query."""
    query = url.partition("?")[2].partition("#")[0]
    hashes = [value for name, value in parse_qsl(query) if name == _BODY_HASH]
    if not hashes and received.content_type == FORM:
        return
    if len(hashes) != 1:
        raise Refused(
            "signature_missing", f"a body that is no form needs {_BODY_HASH} in the URL, once"
        )
    digest = hashlib.sha256(received.body).hexdigest()
    if not hmac.compare_digest(digest.encode(), hashes[0].encode(errors="replace")):
        raise mismatch()
