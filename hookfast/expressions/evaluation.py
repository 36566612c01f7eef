"""One evaluation of a JMESPath expression, with bounded time and memory. Pure.

Every visit of a node costs a step, and so does every element of a list that it makes. What costs
more is charged by the size of its operands, in characters of JSON: a comparison, a call of a
function. The size of each value that the expression makes is limited as a tree, however much of it
is shared: `[@, @] | [@, @] | …` is short in memory and doubles in JSON, so its comparison or its
text would take for ever.
"""

from __future__ import annotations

import json
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Final

from jmespath.visitor import Options, TreeInterpreter

from hookfast.expressions.errors import EvaluationFailed
from hookfast.expressions.functions import FOR_EVENT, ExactFunctions
from hookfast.expressions.values import equal, kind_of, kinds_of

_CREATES: Final = frozenset(
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

_SLOW: Final = frozenset({"eq", "ne", "contains", "to_string"})
"""What visits each value within its operands, in Python."""
_FAST_SIZE, _SLOW_SIZE, _ADDED_SIZE = 64, 16, 8_192
"""Characters of JSON that are copied, visited or added in the time of one step, about 1 µs."""

_NUMBER_SIZE = 8

_ORDER: Final = {"lt": lt, "lte": le, "gt": gt, "gte": ge}


class Evaluation(TreeInterpreter):
    """Evaluates one expression once. `steps` is the most it may take; `max_size` the size of the
    largest value it may make, in characters of JSON."""

    def __init__(self, *, steps: int, max_size: int) -> None:
        super().__init__(Options(custom_functions=ExactFunctions()))
        self._steps = steps
        self._max_size = max_size
        # by id; with the value, so that no other value gets the same id
        self._sizes: dict[int, tuple[Any, int]] = {}

    def result(self, tree: Any, value: Any) -> Any:
        """Return the result. Raises EvaluationFailed."""
        try:
            found = self.visit(tree, value)
            self._check_size(found)
        except EvaluationFailed:
            raise
        except Exception as error:  # a fault of ours or the library's ends no activity
            raise EvaluationFailed(f"the expression cannot be evaluated{FOR_EVENT}") from error
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

    def visit_comparator(self, node: Any, value: Any) -> bool | None:
        """Compare JSON values. The order of anything but two numbers is null."""
        one, other = (self.visit(child, value) for child in node["children"])
        kind = node["value"]
        if kind in _ORDER:
            numbers = kind_of(one) == kind_of(other) == "number"
            return bool(_ORDER[kind](one, other)) if numbers else None
        return equal(one, other) is (kind == "eq")

    def _charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise EvaluationFailed(
                "the expression takes too many steps for this event; select less of the data"
            )

    def _charge_operation(self, node: Any, operands: list[Any]) -> None:
        size = sum(map(self._size, operands))
        if node["value"] == "join" and isinstance(operands[1], list):
            size += self._size(operands[0]) * len(operands[1])
            if size > self._max_size:
                raise self._too_large()
        elements = sum(len(one) for one in operands if isinstance(one, list))
        if node["value"] in ("sum", "avg") and elements and kinds_of(operands[0]) == {"number"}:
            elements += elements * max(map(self._size, operands[0])) // _ADDED_SIZE
        per_step = _SLOW_SIZE if node["value"] in _SLOW else _FAST_SIZE
        self._charge(size // per_step + elements)

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
        return len(str(value)) if isinstance(value, Decimal) else _NUMBER_SIZE

    def _measure(self, value: Any) -> int:
        """Return the size of a container that no node has made: a part of the input or a literal,
        which is a tree and no larger than their text."""
        size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str))
        self._charge(size // _FAST_SIZE)
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

    def _too_large(self) -> EvaluationFailed:
        return EvaluationFailed(
            f"the expression makes a value of more than {self._max_size // 1024:,} KiB for this "
            "event; select less of the data"
        )
