"""Idempotency keys of inbound requests: one per provider delivery, one per business fact.

`delivery_key` is unique in the inbox. `BusinessKeys` are optional: they identify the business fact
of an event, so that it is emitted once even when it arrives under different delivery ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hookfast.errors import join_pointer
from hookfast.events.event_type import matches, parse_pattern
from hookfast.expressions.expression import invalid
from hookfast.inbox.expression import KeyExpression, compile_expression
from hookfast.inbox.provider import Provider
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue

MAX_RULES = 32
SUGGESTED = "suggested"
"""Given instead of business keys: use the keys that the provider suggests."""


def delivery_key(
    provider: Provider,
    request: InboundRequest,
    *,
    payload: JsonValue,
    expression: KeyExpression | None = None,
) -> str:
    """Return the idempotency key of a request; at most 204 printable characters, unless it is from
    `expression`. It is `id:` and the provider's delivery id; otherwise `key:` and the result of
    `expression`; otherwise the provider's `content_key`. The prefix tells them apart.
    """
    delivery_id = provider.delivery_id(request, payload)
    if delivery_id is not None:
        return f"id:{delivery_id}"
    key = None if expression is None else expression.key(payload)
    return provider.content_key(request) if key is None else f"key:{key}"


def covers_any_body(key: str, provider: Provider) -> bool:
    """Whether requests with this delivery key are the same whatever their bytes: if an expression
    of the source chose it. A provider's id is not enough, because it is often unsigned, and several
    hooks may share it: only equal bytes are then the same request."""
    return key.startswith("key:") or provider.chooses_id


@dataclass(frozen=True, slots=True)
class BusinessKeys:
    """Key expressions by event type pattern. The first pattern that matches applies."""

    rules: tuple[tuple[str, KeyExpression], ...]

    @classmethod
    def parse(
        cls, keys: str | Mapping[str, str], *, provider: Provider, pointer: str
    ) -> BusinessKeys:
        """Parse one expression for all events, expressions by event type pattern, or SUGGESTED.

        Raises InvalidInput: `invalid_expression` or `invalid_pattern`, pointing at the member.
        """
        if keys == SUGGESTED:
            keys = provider.suggested_keys
            if not keys:
                raise invalid(
                    pointer, f"{provider.name} has no suggested keys; write key expressions"
                )
        if isinstance(keys, str):
            return cls((("**", compile_expression(keys, pointer=pointer)),))
        if not 0 < len(keys) <= MAX_RULES:
            raise invalid(pointer, f"give 1 to {MAX_RULES} patterns with their expressions")
        rules = []
        for pattern, text in keys.items():
            at = join_pointer(pointer, pattern)
            rules.append((parse_pattern(pattern, pointer=at), compile_expression(text, pointer=at)))
        return cls(tuple(rules))

    def key(self, event_type: str, payload: JsonValue) -> str | None:
        """Return `<event type>:<key>`, or None when no pattern matches or the expression has no
        result: such an event is never a duplicate. `event_type` is the provider's event type, not
        the one that the source emits, so that the suggested patterns match."""
        for pattern, expression in self.rules:
            if matches(pattern, event_type):
                key = expression.key(payload)
                return None if key is None else f"{event_type}:{key}"
        return None
