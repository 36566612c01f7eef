"""Inputs of workflows, and what happens to a workflow that somebody started by hand without one.

Temporal repeats the task of a workflow whose code cannot begin, for ever. That is right for a fault
in our code, because a fixed worker continues, and wrong for an input that never was ours: such a
workflow fails with a message.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

_T = TypeVar("_T")

NO_INPUT: Final[Any] = None
"""The default of a workflow's input."""

_KINDS: Final[set[type]] = set()


class InvalidInput(Exception):
    """A workflow was started without the input that Hookfast gives it. The workflow fails: start
    nothing by hand; use the API, the dashboard or the command line."""


def workflow_input(kind: type[_T]) -> type[_T]:
    """Mark a class as the input of a workflow."""
    _KINDS.add(kind)
    return kind


def is_workflow_input(kind: object) -> bool:
    """Whether `workflow_input` marked the class."""
    return kind in _KINDS


def require(kind: type, given: object) -> None:
    """Raise InvalidInput unless a workflow was given an input of this class."""
    if not isinstance(given, kind):
        raise InvalidInput(message(kind))


def message(kind: type) -> str:
    """The message with which a workflow fails that should have an input of this class."""
    return (
        f"This workflow was started without a valid {kind.__name__}. Hookfast starts its workflows "
        "itself, from rows of its database; use its API, dashboard or command line instead. "
        "Nothing was done."
    )
