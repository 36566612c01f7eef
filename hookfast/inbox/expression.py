"""Key expressions: JMESPath over a payload, with a bounded cost of evaluation. Pure.

https://jmespath.org/specification.html, without expression types (`&`) and with the functions in
FUNCTIONS only. An expression identifies what must not happen twice, for example
`[repository.full_name, ref, after]`.

JMESPath cannot refer to the root from inside a projection, so each node costs as much as the
current data is long. Everything that could multiply the data is limited at compile time:
multi-selects (the product of their lengths is at most MAX_FAN_OUT), `to_string` (each one doubles
the backslashes of the one inside) and the glue of `join` (a short literal). Evaluation also counts
its steps.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, Final

import jmespath
from jmespath.visitor import TreeInterpreter

from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import JsonValue

MAX_LENGTH = 300
"""Longest expression, in characters."""
MAX_DEPTH = 16
MAX_NODES = 80
MAX_FAN_OUT = 32
MAX_TO_STRING = 2
MAX_GLUE = 16
MAX_STEPS = 50_000
"""Nodes visited and list elements created in one evaluation: 0.1 s for the worst known case."""
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


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled key expression. Two are equal when their texts are."""

    text: str
    _tree: Any = field(repr=False, compare=False)

    def key(self, payload: JsonValue) -> str | None:
        """Return the key of a payload, or None when the result is null or empty, or contains a
        null or empty member: an incomplete key would make different events equal.

        A string is the key itself; any other result becomes canonical JSON: sorted members, no
        white space. Never raises; an evaluation beyond the limits has no key.
        """
        value = self.value(payload)
        if _is_empty(value):
            return None
        if isinstance(value, list | dict):
            members = value.values() if isinstance(value, dict) else value
            if any(_is_empty(member) for member in members):
                return None
        text = value if isinstance(value, str) else _canonical(value)
        if len(text) <= MAX_KEY_LENGTH:
            return text
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def value(self, payload: JsonValue) -> JsonValue:
        """Return the result, or None when the evaluation fails or exceeds the limits."""
        try:
            result: JsonValue = _Bounded().visit(self._tree, payload)
        except Exception:
            # Not only the library's own errors: comparing a string with a number raises TypeError.
            # No such error is worth losing a request.
            return None
        return result


def compile_expression(text: str, *, pointer: str) -> Expression:
    """Compile an expression. Raises InvalidInput (`invalid_expression`) unless it is JMESPath
    within the limits."""
    if not 0 < len(text) <= MAX_LENGTH:
        raise _invalid(pointer, f"a key expression has 1 to {MAX_LENGTH} characters")
    try:
        tree: Any = jmespath.compile(text).parsed
    except Exception:
        # JMESPath errors, and RecursionError for deep nesting. The library's messages are not
        # passed on, because they quote the expression over several lines.
        raise _invalid(
            pointer, "this is not a JMESPath expression, e.g. '[repository.full_name, ref, after]'"
        ) from None
    _check(tree, pointer)
    return Expression(text, tree)


class _OverBudget(Exception):
    pass


class _Bounded(TreeInterpreter):
    def __init__(self) -> None:
        super().__init__()
        self._steps = MAX_STEPS

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        result = super().visit(node, *args, **kwargs)
        self._steps -= 1 + (len(result) if isinstance(result, list) else 0)
        if self._steps < 0:
            raise _OverBudget
        return result


def _check(tree: Any, pointer: str) -> None:
    fan_out, to_string, nodes = 1, 0, 0
    level = [tree]
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        for node in level:
            kind, children = node["type"], node["children"]
            if kind == "expref":
                raise _invalid(pointer, "a key expression cannot use expression types ('&')")
            if kind.startswith("multi_select"):
                fan_out *= len(children)
            if kind == "function_expression":
                _check_call(node, pointer)
                to_string += node["value"] == "to_string"
        # the bounds of a slice are numbers among the children
        level = [child for node in level for child in node["children"] if isinstance(child, dict)]
    if level or nodes > MAX_NODES:
        raise _invalid(
            pointer,
            f"a key expression nests at most {MAX_DEPTH} levels and has at most {MAX_NODES} parts",
        )
    if fan_out > MAX_FAN_OUT or to_string > MAX_TO_STRING:
        raise _invalid(
            pointer,
            f"the product of the lengths of a key expression's multi-selects is at most "
            f"{MAX_FAN_OUT}, and it uses to_string at most {MAX_TO_STRING} times",
        )


def _check_call(node: Any, pointer: str) -> None:
    if node["value"] not in FUNCTIONS:
        raise _invalid(pointer, f"a key expression can only use {', '.join(sorted(FUNCTIONS))}")
    if node["value"] == "join":
        glue = node["children"][0] if node["children"] else {"type": "nothing"}
        if glue["type"] != "literal" or len(str(glue["value"])) > MAX_GLUE:
            raise _invalid(
                pointer, f"join's first argument must be a literal of at most {MAX_GLUE} characters"
            )


def _is_empty(value: object) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return True  # the sum of finite numbers may be infinite
    return value is None or value == "" or value == [] or value == {}


def _canonical(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_expression")
