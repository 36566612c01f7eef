"""Idempotency keys: what makes two requests the same request, and two events the same fact.

The first, `delivery_key`, is what an inbox is unique by. The second, `BusinessKeys`, is optional:
it names the business fact of an event, which then emits once even under different delivery ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hookfast.errors import InvalidInput
from hookfast.events.event_type import matches, parse_pattern
from hookfast.inbox.expression import Expression, compile_expression
from hookfast.inbox.provider import Provider
from hookfast.inbox.received import Received
from hookfast.strict_json.parser import JsonValue

MAX_RULES = 32
SUGGESTED = "suggested"
"""In place of business keys: those the provider suggests."""


def delivery_key(
    provider: Provider,
    received: Received,
    *,
    payload: JsonValue,
    expression: Expression | None = None,
) -> str:
    """The key of a request, at most 204 printable characters where the provider or the body gives
    it: `id:` and the provider's delivery id; else `key:` and what `expression` gives; else
    `sha256:` and the hex digest of the body. The prefix keeps one kind from passing for another.
    """
    given = provider.delivery_id(received, payload)
    if given is not None:
        return f"id:{given}"
    key = None if expression is None else expression.key(payload)
    return received.content_key if key is None else f"key:{key}"


@dataclass(frozen=True, slots=True)
class BusinessKeys:
    """Key expressions by event type pattern; the first pattern that matches decides."""

    rules: tuple[tuple[str, Expression], ...]

    @classmethod
    def parse(
        cls, given: str | Mapping[str, str], *, provider: Provider, pointer: str
    ) -> BusinessKeys:
        """Of one expression for every event, of an object of patterns and expressions, or of
        SUGGESTED. Raises InvalidInput: `invalid_expression` or `invalid_pattern`, at the member."""
        if given == SUGGESTED:
            given = provider.suggested_keys
            if not given:
                raise _invalid(pointer, f"no keys are suggested for {provider.name}; write them")
        if isinstance(given, str):
            return cls((("**", compile_expression(given, pointer=pointer)),))
        if not 0 < len(given) <= MAX_RULES:
            raise _invalid(pointer, f"give 1 to {MAX_RULES} patterns with their expressions")
        rules = []
        for pattern, text in given.items():
            member = pattern.replace("~", "~0").replace("/", "~1")  # RFC 6901, section 3
            at = f"{pointer}/{member}"
            rules.append((parse_pattern(pattern, pointer=at), compile_expression(text, pointer=at)))
        return cls(tuple(rules))

    def key(self, event_type: str, payload: JsonValue) -> str | None:
        """`<event type>:<key>`, None when no pattern matches or the expression gives no key: such
        an event is a fact of its own. `event_type` is the provider's name, not an override's, so
        that the suggested patterns match."""
        for pattern, expression in self.rules:
            if matches(pattern, event_type):
                key = expression.key(payload)
                return None if key is None else f"{event_type}:{key}"
        return None


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_expression")
