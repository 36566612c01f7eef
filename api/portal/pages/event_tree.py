"""The tree of event types to tick, a part of several forms."""

from __future__ import annotations

from dataclasses import dataclass

from api.access.authentication import Principal
from api.portal.catalogue import Branch, matched, untickable
from api.portal.pages.event_types import catalogue
from api.site.form import Form
from api.site.page import View


@dataclass(frozen=True, slots=True)
class Tree:
    """The catalogue, the patterns that are ticked, those without a box, which are typed as text,
    and the event types that all of them match."""

    branches: list[Branch]
    patterns: list[str]
    typed: list[str]
    matches: list[str]


async def tree_values(view: View, principal: Principal, patterns: list[str]) -> Tree:
    """Return the tree with these patterns."""
    branches = await catalogue(view.context, principal)
    names = [leaf.name for branch in branches for leaf in branch.leaves]
    typed = untickable(patterns, branches)
    return Tree(branches, patterns, typed, matched(patterns, names))


def ticked(form: Form) -> list[str]:
    """Return the patterns of the ticked boxes and of the text field, each once."""
    typed = form.get("patterns", "").replace(",", " ").split()
    return list(dict.fromkeys([*form.all("ticked"), *typed]))
