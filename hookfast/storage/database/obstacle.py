"""Why a database cannot be used, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Two sentences for the operator, without secrets: what was seen, and what to do."""

    saw: str
    todo: str

    def __str__(self) -> str:
        return f"{self.saw} {self.todo}"


def identifier(name: str) -> str:
    """Return a name as SQL writes it, so that a statement with it can be copied."""
    return f'"{name.replace(chr(34), 2 * chr(34))}"'
