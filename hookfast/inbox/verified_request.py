"""Verify an inbound request and read its body, in the order that is safe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from hookfast.errors import InvalidInput
from hookfast.events.event_type import matching_patterns
from hookfast.events.hops import HEADER, MAX_HOPS, received_hops
from hookfast.inbox.errors import TooManyHops
from hookfast.inbox.expression import KeyExpression
from hookfast.inbox.form import FORM
from hookfast.inbox.idempotency_key import BusinessKeys, covers_any_body, delivery_key
from hookfast.inbox.kept_headers import kept_headers
from hookfast.inbox.media_type import UNKNOWN
from hookfast.inbox.provider import Answer, Provider
from hookfast.inbox.request import InboundRequest
from hookfast.inbox.unparsed import unparsed
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.tolerant import Reading

MAX_CONTENT_TYPE = 200
_PRINTABLE = re.compile(r"[\t -~]+")
_CODED: Final = "the body is compressed (Content-Encoding), which Hookfast does not undo"
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
    """A verified request. `data` is the payload as JSON text, `value` the parsed payload. With
    `any_body`, a request with the same `key` is the same whatever its bytes. `hops` are those of
    its event. `acknowledgement` is the response that its provider expects, None when any 2xx will
    do."""

    key: str
    any_body: bool
    business_key: str | None
    event_type: str
    sha256: str
    content_type: str
    headers: list[tuple[str, str]]
    hops: int
    acknowledgement: Answer | None
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

    Raises RequestRejected, then UnsupportedContentType and TooManyHops, before the body is parsed,
    and InvalidInput for a header that is repeated. Takes about 10 ms per MiB: use a thread for long
    bodies.
    """
    provider.verify(request, secrets=secrets, now=now)
    provider.check_content_type(request)
    hops = received_hops(request.headers.all(HEADER))
    if hops > MAX_HOPS:
        raise TooManyHops(hops)
    reading, is_json = read_payload(provider, request)
    payload = reading.value if is_json else None
    answer = provider.answer(request, payload)
    if answer is not None:
        return answer
    if not is_json:
        rules = replace(rules, id_expression=None, business_keys=None)
    event_type, business_key = rules.classify(provider, request, payload)
    key = delivery_key(provider, request, payload=payload, expression=rules.id_expression)
    return VerifiedRequest(
        key=key,
        any_body=covers_any_body(key, provider),
        business_key=business_key,
        event_type=event_type,
        sha256=request.sha256,
        content_type=_content_type(request),
        headers=kept_headers(
            request.headers.items(),
            credentials=_header_option(provider, _SIGNATURE_OPTION),
            ids=provider.id_headers | _header_option(provider, _ID_OPTION),
        ),
        hops=hops,
        acknowledgement=provider.acknowledgement(request, payload),
        data=reading.text,
        value=reading.value,
    )


def read_payload(provider: Provider, request: InboundRequest) -> tuple[Reading, bool]:
    """Return the body as the data of an event, and whether it is the provider's JSON. If not, it
    is kept as text (see `unparsed`): what was signed is never dropped."""
    codings = {coding.lower() for coding in request.headers.all("Content-Encoding")}
    coded = bool(codings - {"", "identity"})
    if coded and request.content_type == FORM:  # a form may have any bytes
        return unparsed(request, reason=_CODED), False
    try:
        return provider.read(request), True
    except InvalidInput as error:
        return unparsed(request, reason=_CODED if coded else error.message), False


def _content_type(request: InboundRequest) -> str:
    """Return the Content-Type as received, to forward with the unchanged body; without its
    parameters when they are too long or not printable ASCII."""
    text = request.headers.only("Content-Type") or UNKNOWN
    fits = len(text) <= MAX_CONTENT_TYPE and _PRINTABLE.fullmatch(text)
    return text if fits else request.content_type


def _header_option(provider: Provider, option: str) -> set[str]:
    """Return the header that this option of the source names, as a set of one or none."""
    name = getattr(provider, option, None)
    return {name} if isinstance(name, str) else set()
