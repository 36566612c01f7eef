"""Key expressions: JMESPath over a payload (`hookfast.expressions`). Pure.

An expression identifies what must not happen twice, for example `[repository.full_name, ref,
after]`. It needs little, so everything that could multiply the data is rejected when it is
compiled, where its author sees it: multi-selects (the product of their lengths is at most
MAX_FAN_OUT), `to_string` (each one doubles the backslashes of the one inside) and the glue of
`join` (a short literal).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from hookfast.expressions.errors import EvaluationFailed
from hookfast.expressions.expression import (
    Expression,
    Limits,
    compile_within,
    invalid,
    nodes_by_level,
)
from hookfast.strict_json.numbers import WrittenNumber, canonical
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.text import to_text
from hookfast.strict_json.tolerant import NOT_STORABLE

MAX_FAN_OUT = 32
MAX_TO_STRING = 2
MAX_GLUE = 16
MAX_SIZE = 16 * 1024 * 1024
"""Largest value that an expression may make of a payload, in characters of JSON."""
MAX_KEY_LENGTH = 200
"""Longest key, in characters; a longer one is replaced by its SHA-256."""

FUNCTIONS: Final = frozenset(
    {
        "contains",
        "ends_with",
        "join",
        "keys",
        "length",
        "max",
        "min",
        "not_null",
        "sort",
        "starts_with",
        "sum",
        "to_array",
        "to_number",
        "to_string",
        "type",
        "values",
    }
)
LIMITS: Final = Limits(
    noun="a key expression",
    example="'[repository.full_name, ref, after]'",
    functions=FUNCTIONS,
    length=300,
    nodes=80,
    depth=16,
    steps=50_000,  # 0.1 s for the worst known case
)


@dataclass(frozen=True, slots=True)
class KeyExpression:
    """A compiled key expression. Two are equal when their texts are."""

    expression: Expression

    def key(self, payload: JsonValue) -> str | None:
        """Return the key of a payload, or None when the result is null or empty, or contains a
        null or empty member: an incomplete key would make different events equal.

        A string is the key itself; any other result becomes canonical JSON: sorted members, no
        white space, and numbers as by `canonical`, so that equal numbers have equal keys. Never
        raises; an evaluation beyond the limits has no key, and neither has a result with U+FFFD,
        which may stand for different bytes.
        """
        value = self.value(payload)
        if _is_empty(value):
            return None
        if isinstance(value, list | dict):
            members = value.values() if isinstance(value, dict) else value
            if any(_is_empty(member) for member in members):
                return None
        text = value if isinstance(value, str) else _canonical(value)
        if "\ufffd" in text:
            return None
        if len(text) <= MAX_KEY_LENGTH and not NOT_STORABLE.search(text):
            return text
        return f"sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"

    def value(self, payload: JsonValue) -> JsonValue:
        """Return the result, or None when the evaluation fails or exceeds the limits."""
        try:
            result: JsonValue = self.expression.evaluate(payload, max_size=MAX_SIZE)
        except EvaluationFailed:
            return None  # no such error is worth losing a request
        return result


def compile_expression(text: str, *, pointer: str) -> KeyExpression:
    """Compile an expression. Raises InvalidInput (`invalid_expression`) unless it is JMESPath
    within the limits."""
    expression = compile_within(LIMITS, text, pointer=pointer)
    _check(expression.tree, pointer)
    return KeyExpression(expression)


def _check(tree: Any, pointer: str) -> None:
    fan_out, to_string = 1, 0
    for level in nodes_by_level(tree, depth=LIMITS.depth):
        for node in level:
            if node["type"].startswith("multi_select"):
                fan_out *= len(node["children"])
            if node["type"] == "function_expression":
                _check_glue(node, pointer)
                to_string += node["value"] == "to_string"
    if fan_out > MAX_FAN_OUT or to_string > MAX_TO_STRING:
        raise invalid(
            pointer,
            f"the product of the lengths of a key expression's multi-selects is at most "
            f"{MAX_FAN_OUT}, and it uses to_string at most {MAX_TO_STRING} times",
        )


def _check_glue(call: Any, pointer: str) -> None:
    if call["value"] == "join":
        glue = call["children"][0]
        if glue["type"] != "literal" or len(str(glue["value"])) > MAX_GLUE:
            raise invalid(
                pointer, f"join's first argument must be a literal of at most {MAX_GLUE} characters"
            )


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _canonical(value: JsonValue) -> str:
    return to_text(_with_canonical_numbers(value), sort_keys=True)


def _with_canonical_numbers(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_with_canonical_numbers(one) for one in value]
    if isinstance(value, dict):
        return {name: _with_canonical_numbers(one) for name, one in value.items()}
    if type(value) is bool or not isinstance(value, int | Decimal):
        return value
    return WrittenNumber(canonical(value), Decimal(value))
