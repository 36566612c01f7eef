"""The event catalogue as a tree: by the parts of the names, with the patterns that take a whole
branch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hookfast.events.event_type import matching_patterns


@dataclass(frozen=True, slots=True)
class Leaf:
    """An event type."""

    name: str
    description: str


@dataclass(slots=True)
class Branch:
    """The event types whose names begin alike, such as `order`, and the pattern that matches all of
    them, also those that are registered later: `order.**`."""

    name: str
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def pattern(self) -> str:
        """The pattern of the whole branch."""
        return f"{self.name}.**"


def tree_of(leaves: Iterable[Leaf]) -> list[Branch]:
    """Return the branches by name, each with its event types by name."""
    branches: dict[str, Branch] = {}
    for leaf in sorted(leaves, key=lambda each: each.name):
        first = leaf.name.partition(".")[0]
        branches.setdefault(first, Branch(first)).leaves.append(leaf)
    return list(branches.values())


def matched(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the event types that at least one of the patterns matches."""
    wanted = set(patterns)
    return [name for name in names if not wanted.isdisjoint(matching_patterns(name))]


def untickable(patterns: Sequence[str], branches: Sequence[Branch]) -> list[str]:
    """Return the patterns that the tree has no box for, such as `order.*.paid`."""
    boxes = {"**"}
    for branch in branches:
        boxes.add(branch.pattern)
        boxes.update(leaf.name for leaf in branch.leaves)
    return [pattern for pattern in patterns if pattern not in boxes]
