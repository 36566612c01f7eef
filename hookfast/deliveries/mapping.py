"""Mappings: JMESPath expressions that make the bodies of `mapped` deliveries. Pure.

A mapping is evaluated for the event's body: `id`, `type`, `created_at`, `tenant_id` and `data`. Its
result, as JSON, is what the receiver gets. Tenants write mappings, so every cost is bounded
(`hookfast.expressions`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from hookfast.errors import InvalidInput
from hookfast.expressions.evaluation import EvaluationFailed
from hookfast.expressions.expression import Expression, Limits, compile_within
from hookfast.expressions.numbers import ExactJson, to_text

MAX_BYTES: Final = 256 * 1024
"""Largest body that a mapping may make, in bytes; the event's own size if that is larger."""

LIMITS: Final = Limits(
    noun="a mapping",
    example="`{text: join(' ', ['Invoice', data.id, 'is paid'])}`",
    functions=frozenset(
        {
            "abs",
            "avg",
            "ceil",
            "contains",
            "ends_with",
            "floor",
            "join",
            "keys",
            "length",
            "map",
            "max",
            "max_by",
            "merge",
            "min",
            "min_by",
            "not_null",
            "reverse",
            "sort",
            "sort_by",
            "starts_with",
            "sum",
            "to_array",
            "to_number",
            "to_string",
            "type",
            "values",
        }
    ),
    length=4_000,
    nodes=600,
    depth=48,
    steps=30_000,
)


class MappingFailed(Exception):
    """A mapping makes no body of an event. `reason` says why to the endpoint's owner, and contains
    nothing of the event; `error` says also what to do about a delivery."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def error(self) -> str:
        """The error of a delivery whose mapping failed, with what to do."""
        return f"Nothing was sent: {self.reason}. Change the subscription's mapping, then resend."


def check_mapping(text: str, *, pointer: str) -> None:
    """Raise InvalidInput (`invalid_expression`) unless the text is a mapping."""
    compile_within(LIMITS, text, pointer=pointer)


def mapped_body(mapping: str, body: bytes) -> bytes:
    """Return the body that a mapping makes of an event's body. Raises MappingFailed. Takes at most
    about 0.1 s."""
    limit = max(MAX_BYTES, len(body))
    event = ExactJson.parse(body)
    try:
        expression = _compiled(mapping)
        result = expression.evaluate(event.value, max_size=2 * limit, exact=event.exact)
    except InvalidInput as error:  # stored by a version that accepts more
        raise MappingFailed(error.message) from None
    except EvaluationFailed as error:
        raise MappingFailed(str(error)) from None
    if result is None:
        raise MappingFailed(
            "the mapping makes null of this event; check the names of the members that it selects"
        )
    made = _as_json(result, exact=event.exact)
    if len(made) > limit:
        raise MappingFailed(
            f"the mapping makes a body of more than {limit // 1024:,} KiB of this event"
        )
    return made


@lru_cache(maxsize=128)
def _compiled(text: str) -> Expression:
    return compile_within(LIMITS, text, pointer="")


def _as_json(value: Any, *, exact: bool) -> bytes:
    try:
        # a lone surrogate stays the escape that it was
        return to_text(value, exact=exact).encode(errors="backslashreplace")
    except ValueError:
        # an infinite sum
        raise MappingFailed("the mapping's result has a number that JSON cannot express") from None
