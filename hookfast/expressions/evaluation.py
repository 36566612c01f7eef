"""One evaluation of a JMESPath expression, with bounded time and memory. Pure.

Every visit of a node costs a step, and so does every element of a list that it makes. What costs
more is charged by the size of its operands, in characters of JSON: a comparison, a call of a
function. The size of each value that the expression makes is limited as a tree, however much of it
is shared: `[@, @] | [@, @] | …` is short in memory and doubles in JSON, so its comparison or its
text would take for ever.
"""

from __future__ import annotations

import json
from typing import Any

from jmespath.exceptions import JMESPathTypeError
from jmespath.functions import TYPES_MAP, Functions, signature
from jmespath.visitor import Options, TreeInterpreter

from hookfast.expressions.numbers import to_text

_CREATES = frozenset(
    {
        "filter_projection",
        "flatten",
        "function_expression",
        "multi_select_dict",
        "multi_select_list",
        "projection",
        "slice",
        "value_projection",
    }
)
"""The kinds of nodes whose result may be a new list or object."""

_FAST, _EXACT = 64, 8
"""Characters of JSON that are compared, copied or written in the time of one step, about 1 µs: by
the standard library, and by `to_text` where numbers are exact."""

_NUMBER_SIZE = 8


class EvaluationFailed(Exception):
    """An expression has no result for a value. The message is a sentence for the author of the
    expression, and contains nothing of the value."""


class _OverLimit(EvaluationFailed):
    pass


class _Functions(Functions):
    def __init__(self, *, exact: bool) -> None:
        self._exact = exact

    @signature({"types": []})
    def _func_to_string(self, arg: Any) -> str:
        return arg if isinstance(arg, str) else to_text(arg, exact=self._exact)


class Evaluation(TreeInterpreter):
    """Evaluates one expression once. `steps` is the most it may take; `max_size` the size of the
    largest value it may make, in characters of JSON; `exact`: some numbers are ExactFloat."""

    def __init__(self, *, steps: int, max_size: int, exact: bool) -> None:
        super().__init__(Options(custom_functions=_Functions(exact=exact)))
        self._steps = steps
        self._max_size = max_size
        self._per_step = _EXACT if exact else _FAST
        # by id; with the value, so that no other value gets the same id
        self._sizes: dict[int, tuple[Any, int]] = {}

    def result(self, tree: Any, value: Any) -> Any:
        """Return the result. Raises EvaluationFailed."""
        try:
            found = self.visit(tree, value)
            self._check_size(found)
        except EvaluationFailed:
            raise
        except JMESPathTypeError as error:
            raise EvaluationFailed(_type_error(error)) from None
        except Exception as error:
            # Not only the library's own errors: for example, comparing a string with a number
            # raises TypeError.
            raise EvaluationFailed(
                f"the expression cannot be evaluated for this event ({type(error).__name__})"
            ) from None
        return found

    def visit(self, node: Any, value: Any) -> Any:
        """Visit a node, and charge what that costs."""
        kind = node["type"]
        if kind in ("function_expression", "comparator"):
            operands = [self.visit(child, value) for child in node["children"]]
            self._charge_operation(node, operands)
            literals = [{"type": "literal", "value": one, "children": []} for one in operands]
            node = {**node, "children": literals}
        result = super().visit(node, value)
        self._charge(1)
        if kind in _CREATES:
            if isinstance(result, list | dict):
                self._note(result)
            elif isinstance(result, str):
                self._check_size(result)
        return result

    def _charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _OverLimit(
                "the expression takes too many steps for this event; select less of the data"
            )

    def _charge_operation(self, node: Any, operands: list[Any]) -> None:
        size = sum(map(self._size, operands))
        if node["value"] == "join" and isinstance(operands[1], list):
            size += self._size(operands[0]) * len(operands[1])
            if size > self._max_size:
                raise self._too_large()
        elements = sum(len(one) for one in operands if isinstance(one, list))
        self._charge(size // self._per_step + elements)

    def _check_size(self, value: Any) -> None:
        if self._size(value) > self._max_size:
            raise self._too_large()

    def _size(self, value: Any) -> int:
        """Return the size of a value as JSON, in characters, roughly."""
        if isinstance(value, str):
            return len(value) + 2
        if isinstance(value, list | dict):
            known = self._sizes.get(id(value))
            return self._measure(value) if known is None else known[1]
        if isinstance(value, int):
            return _NUMBER_SIZE + value.bit_length() // 3
        return _NUMBER_SIZE

    def _measure(self, value: Any) -> int:
        """Return the size of a container that no node has made: a part of the input or a literal,
        which is a tree and no larger than their text."""
        size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        self._charge(size // _FAST)
        self._sizes[id(value)] = value, size
        return size

    def _note(self, made: list[Any] | dict[str, Any]) -> None:
        """Note the size of a container that a node has made from values whose sizes are known."""
        self._charge(len(made))
        names = made if isinstance(made, dict) else ()
        members = made.values() if isinstance(made, dict) else made
        size = 2 + sum(len(name) + 3 for name in names) + sum(1 + self._size(m) for m in members)
        if size > self._max_size:
            raise self._too_large()
        self._sizes[id(made)] = made, size

    def _too_large(self) -> _OverLimit:
        return _OverLimit(
            f"the expression makes a value of more than {self._max_size // 1024:,} KiB for this "
            "event; select less of the data"
        )


def _type_error(error: JMESPathTypeError) -> str:
    """Return a sentence without the value, which the library's message contains."""
    actual = TYPES_MAP.get(error.actual_type, error.actual_type)
    expected = " or ".join(
        f"an array of {one.removeprefix('array-')}s" if one.startswith("array-") else one
        for one in error.expected_types
    )
    sentence = f"{error.function_name}() takes {expected}, and was given {actual} for this event"
    if "string" in expected and actual in ("number", "boolean"):
        return f"{sentence}; use to_string()"
    if actual == "null":
        return f"{sentence}; use not_null() to replace what may be missing"
    return sentence
