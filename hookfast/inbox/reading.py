"""Reading a request: from bytes nobody vouches for to an event, in the order that is safe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hookfast.errors import HookfastError, InvalidInput
from hookfast.events.event_type import matching_patterns
from hookfast.inbox.expression import Expression
from hookfast.inbox.form import FORM
from hookfast.inbox.idempotency_key import BusinessKeys, delivery_key
from hookfast.inbox.kept_headers import kept_headers
from hookfast.inbox.provider import Answer, Provider
from hookfast.inbox.received import Received
from hookfast.strict_json.parser import JsonValue

MAX_CONTENT_TYPE = 200
_PROOF_OPTION: Final = "signature_header"
_ID_OPTION: Final = "id_header"


class UnreadablePayload(HookfastError):
    """The request is the provider's, and its body is not what its content type says (HTTP 400)."""

    code = "unreadable_payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a source says of its events beside its provider. `event_types` maps patterns of the
    provider's names to the names to emit; of several that match the narrowest counts."""

    event_types: Mapping[str, str]
    id_expression: Expression | None
    business_keys: BusinessKeys | None
    business_window: timedelta

    def event_type(self, given: str) -> str:
        """The event type to emit for one of the provider's names."""
        if not self.event_types:
            return given
        found = (self.event_types.get(pattern) for pattern in matching_patterns(given))
        return next((name for name in found if name is not None), given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a verified request says. `data` is the payload as JSON text and `value` what that
    means. `acknowledgement` is what its provider wants to hear, where it wants something."""

    key: str
    business_key: str | None
    event_type: str
    sha256: str
    content_type: str
    headers: list[tuple[str, str]]
    acknowledgement: Answer | None
    data: str = field(repr=False)
    value: JsonValue = field(repr=False)


def read(
    provider: Provider, received: Received, *, rules: Rules, secrets: Sequence[str], now: datetime
) -> Answer | Reading:
    """What the request says, or what its provider wants to hear at once.

    Raises Refused before anything of the body is looked at, and UnreadablePayload, which never
    holds a piece of it. Takes some 10 ms for each MiB: for long bodies, use a thread.
    """
    provider.verify(received, secrets=secrets, now=now)
    payload = payload_of(provider, received)
    answer = provider.answer(received, payload)
    if answer is not None:
        return answer
    given = provider.event_type(received, payload)
    keys = rules.business_keys
    return Reading(
        key=delivery_key(provider, received, payload=payload, expression=rules.id_expression),
        business_key=None if keys is None else keys.key(given, payload),
        event_type=rules.event_type(given),
        sha256=hashlib.sha256(received.body).hexdigest(),
        content_type=_content_type(received),
        headers=kept_headers(
            received.headers.items(),
            proofs=_named(provider, _PROOF_OPTION),
            ids=provider.id_headers | _named(provider, _ID_OPTION),
        ),
        acknowledgement=provider.acknowledgement(received, payload),
        data=data_text(received, payload),
        value=payload,
    )


def payload_of(provider: Provider, received: Received) -> JsonValue:
    """The body's value. Raises UnreadablePayload."""
    try:
        return provider.payload(received)
    except InvalidInput as error:
        raise UnreadablePayload(f"The body cannot be read: {error.message}") from None


def data_text(received: Received, payload: JsonValue) -> str:
    """The payload as an event's data: JSON exactly as it came, forms as the JSON they stand for."""
    if received.content_type == FORM:
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    return received.body.decode().strip(" \t\r\n")


def _content_type(received: Received) -> str:
    """The header as it came, for those who get the body as it came; without its parameters where
    they are nothing that could be sent."""
    text = received.headers.only("Content-Type") or ""
    fits = len(text) <= MAX_CONTENT_TYPE and text.isascii() and text.isprintable()
    return text if fits else received.content_type


def _named(provider: Provider, option: str) -> set[str]:
    """The header that an option of the source names, if it does."""
    name = getattr(provider, option, None)
    return {name} if isinstance(name, str) else set()
