"""JMESPath expressions, compiled within limits. Pure.

https://jmespath.org/specification.html, with the functions that the limits list. Expression types
(`&`) are accepted only as an argument of those functions that take one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final

from jmespath.exceptions import ParseError

from hookfast.errors import InvalidInput
from hookfast.expressions.evaluation import Evaluation
from hookfast.expressions.functions import ExactFunctions, wrong_type
from hookfast.expressions.syntax import InvalidLiteral, parse

_SIGNATURES: Final = {
    name: function["signature"] for name, function in ExactFunctions.FUNCTION_TABLE.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an expression may be and cost. `noun` names it in error messages. `length` is in
    characters; `nodes` and `depth` are those of its syntax tree; `steps` are those of one
    evaluation (`Evaluation`)."""

    noun: str
    example: str
    functions: frozenset[str]
    length: int
    nodes: int
    depth: int
    steps: int


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. Two are equal when their texts and limits are."""

    text: str
    limits: Limits
    tree: Any = field(repr=False, compare=False)

    def evaluate(self, value: Any, *, max_size: int) -> Any:
        """Return the result for a parsed JSON value. `max_size` is the largest value that the
        expression may make meanwhile, in characters of JSON. Raises EvaluationFailed, and nothing
        else."""
        return Evaluation(steps=self.limits.steps, max_size=max_size).result(self.tree, value)


def compile_within(limits: Limits, text: str, *, pointer: str) -> Expression:
    """Compile an expression. Raises InvalidInput (`invalid_expression`) unless it is JMESPath
    within the limits."""
    if not 0 < len(text) <= limits.length:
        raise invalid(pointer, f"{limits.noun} has 1 to {limits.length:,} characters")
    try:
        tree = parse(text)
    except InvalidLiteral as error:
        raise invalid(pointer, f"{limits.noun} has {error}") from None
    except ParseError as error:
        # The library's messages are not passed on, because they quote the expression over several
        # lines.
        where = f" (there is an error at character {min(error.lex_position, len(text)) + 1})"
        raise _not_jmespath(limits, pointer, where) from None
    except Exception:  # others of the library, and RecursionError for deep nesting
        raise _not_jmespath(limits, pointer) from None
    _check(tree, limits, pointer)
    return Expression(text, limits, tree)


def nodes_by_level(tree: Any, *, depth: int) -> Iterator[list[Any]]:
    """Yield the nodes of each level of a syntax tree, from the root, for at most `depth` levels."""
    level = [tree]
    for _ in range(depth):
        if not level:
            return
        yield level
        # the bounds of a slice are numbers among the children
        level = [child for node in level for child in node["children"] if isinstance(child, dict)]


def invalid(pointer: str, detail: str) -> InvalidInput:
    """Return the error for an expression that is not accepted."""
    return InvalidInput.at(pointer, detail, code="invalid_expression")


def _check(tree: Any, limits: Limits, pointer: str) -> None:
    nodes, references = 0, 0
    for depth, level in enumerate(nodes_by_level(tree, depth=limits.depth + 1)):
        nodes += len(level)
        if depth == limits.depth or nodes > limits.nodes:
            raise invalid(
                pointer,
                f"{limits.noun} nests at most {limits.depth} levels and has at most "
                f"{limits.nodes} parts",
            )
        for node in level:
            references += node["type"] == "expref"
            if node["type"] == "function_expression":
                references -= _check_call(node, limits, pointer)
            if node["type"] == "slice" and node["children"][2] == 0:
                raise invalid(pointer, f"{limits.noun} cannot have a slice with the step 0")
    if references:
        raise invalid(
            pointer, f"{limits.noun} cannot use expression types ('&') except in sort_by and others"
        )


def _check_call(node: Any, limits: Limits, pointer: str) -> int:
    """Check a function call, and return how many expression types are its arguments."""
    name, arguments = node["value"], node["children"]
    if name not in limits.functions:
        raise invalid(pointer, f"{limits.noun} can only use {', '.join(sorted(limits.functions))}")
    signature = _SIGNATURES[name]
    variadic = bool(signature[-1].get("variadic"))
    if len(arguments) < len(signature) or (len(arguments) > len(signature) and not variadic):
        least = "at least " if variadic else ""
        raise invalid(
            pointer, f"{name} takes {least}{len(signature)} arguments, and has {len(arguments)}"
        )
    taken = 0
    for given, declared in zip(arguments, signature, strict=False):
        takes = declared["types"] == ["expref"]
        if takes != (given["type"] == "expref"):
            which = "takes an expression, such as `&id`" if takes else "takes no expression"
            raise invalid(pointer, f"{name} {which} there")
        taken += takes
    for given, declared in zip(arguments, chain(signature, repeat(signature[-1])), strict=False):
        if given["type"] == "literal":
            sentence = wrong_type(name, given["value"], declared["types"])
            if sentence is not None:
                raise invalid(pointer, sentence)
    return taken


def _not_jmespath(limits: Limits, pointer: str, where: str = "") -> InvalidInput:
    return invalid(pointer, f"this is not a JMESPath expression{where}, e.g. {limits.example}")
