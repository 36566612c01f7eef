"""The mark of a parameter that is the id of something, in whose place people may give a name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdOf:
    """Marks a parameter as the id of a `noun` of `names.NOUNS`. With `exact`, no part of a name is
    enough: for commands that cannot be undone."""

    noun: str
    exact: bool = False
