"""Verify an inbound request and parse its body, in the order that is safe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from hookfast.errors import InvalidInput
from hookfast.events.event_type import matching_patterns
from hookfast.events.hops import HEADER, MAX_HOPS, received_hops
from hookfast.inbox.errors import TooManyHops, UnreadablePayload
from hookfast.inbox.expression import KeyExpression
from hookfast.inbox.form import FORM
from hookfast.inbox.idempotency_key import BusinessKeys, delivery_key
from hookfast.inbox.kept_headers import kept_headers
from hookfast.inbox.provider import Answer, Provider
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.text import to_text

MAX_CONTENT_TYPE = 200
_SIGNATURE_OPTION: Final = "signature_header"
_ID_OPTION: Final = "id_header"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """The settings of a source that apply to its events, whatever its provider. `event_types` maps
    patterns of the provider's event types to the types to emit; the narrowest match applies."""

    event_types: Mapping[str, str]
    id_expression: KeyExpression | None
    business_keys: BusinessKeys | None
    business_window: timedelta

    def event_type(self, provider_type: str) -> str:
        """Return the event type to emit for the provider's event type."""
        if not self.event_types:
            return provider_type
        found = (self.event_types.get(pattern) for pattern in matching_patterns(provider_type))
        return next((name for name in found if name is not None), provider_type)

    def classify(
        self, provider: Provider, request: InboundRequest, payload: JsonValue
    ) -> tuple[str, str | None]:
        """Return the event type to emit for a request, and its business key, if it has one."""
        provider_type = provider.event_type(request, payload)
        keys = self.business_keys
        business_key = keys.key(provider_type, payload) if keys is not None else None
        return self.event_type(provider_type), business_key


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRequest:
    """A verified request. `data` is the payload as JSON text, `value` the parsed payload; if the
    body cannot be read, they are empty and `error` says why. `hops` are those of its event.
    `acknowledgement` is the response that its provider expects, None when any 2xx will do."""

    key: str
    business_key: str | None
    event_type: str
    sha256: str
    content_type: str
    headers: list[tuple[str, str]]
    hops: int
    acknowledgement: Answer | None
    error: UnreadablePayload | None
    data: str = field(repr=False)
    value: JsonValue = field(repr=False)


def verify_and_parse(
    provider: Provider,
    request: InboundRequest,
    *,
    rules: SourceRules,
    secrets: Sequence[str],
    now: datetime,
) -> Answer | VerifiedRequest:
    """Return the verified request, or the immediate answer to a provider's question.

    Raises RequestRejected and TooManyHops before the body is parsed. Takes about 10 ms per MiB: use
    a thread for long bodies.
    """
    provider.verify(request, secrets=secrets, now=now)
    hops = received_hops(request.headers.all(HEADER))
    if hops > MAX_HOPS:
        raise TooManyHops(hops)
    payload, error = _readable(provider, request)
    answer = provider.answer(request, payload)
    if answer is not None:
        return answer
    if error is not None:
        rules = replace(rules, id_expression=None, business_keys=None)
    event_type, business_key = rules.classify(provider, request, payload)
    return VerifiedRequest(
        key=delivery_key(provider, request, payload=payload, expression=rules.id_expression),
        business_key=business_key,
        event_type=event_type,
        sha256=hashlib.sha256(request.body).hexdigest(),
        content_type=_content_type(request),
        headers=kept_headers(
            request.headers.items(),
            credentials=_header_option(provider, _SIGNATURE_OPTION),
            ids=provider.id_headers | _header_option(provider, _ID_OPTION),
        ),
        hops=hops,
        acknowledgement=provider.acknowledgement(request, payload),
        error=error,
        data=data_text(request, payload) if error is None else "",
        value=payload,
    )


def _readable(
    provider: Provider, request: InboundRequest
) -> tuple[JsonValue, UnreadablePayload | None]:
    """Return the parsed body, or null and why it cannot be read."""
    try:
        return parse_payload(provider, request), None
    except UnreadablePayload as error:
        return None, error


def parse_payload(provider: Provider, request: InboundRequest) -> JsonValue:
    """Return the parsed body. Raises UnreadablePayload, whose message contains none of it."""
    try:
        return provider.payload(request)
    except InvalidInput as error:
        raise UnreadablePayload(f"The body cannot be read: {error.message}") from None


def data_text(request: InboundRequest, payload: JsonValue) -> str:
    """Return the event's data as JSON text: a JSON body unchanged, a form converted to JSON."""
    if request.content_type == FORM:
        return to_text(payload)
    return request.body.decode().strip(" \t\r\n")


def _content_type(request: InboundRequest) -> str:
    """Return the Content-Type as received, to forward with the unchanged body; without its
    parameters when they are too long or not printable ASCII."""
    text = request.headers.only("Content-Type") or ""
    fits = len(text) <= MAX_CONTENT_TYPE and text.isascii() and text.isprintable()
    return text if fits else request.content_type


def _header_option(provider: Provider, option: str) -> set[str]:
    """Return the header that this option of the source names, as a set of one or none."""
    name = getattr(provider, option, None)
    return {name} if isinstance(name, str) else set()
