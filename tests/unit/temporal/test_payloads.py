"""What goes into workflow histories, where JSON has no exact numbers."""

from __future__ import annotations

import dataclasses
import inspect
from decimal import Decimal
from typing import Any, get_args, get_type_hints

import pytest

import worker

PAYLOAD_CLASSES = [
    one
    for one in vars(worker).values()
    if inspect.isclass(one) and one.__name__.endswith(("Activities", "Workflow"))
]
SETTINGS_WITH_FLOATS = {("plan", "dict[str, Any]")}
"""Retry plans, which `SettingsJson` reads with floats."""


def untyped(hint: Any, name: str, seen: set[Any]) -> set[tuple[str, str]]:
    """Return the members of a type whose values could be decimals, with their own types."""
    if hint is Any or hint is Decimal:
        return {(name, "Any")}
    if any(one is Any for one in get_args(hint)):
        return {(name, str(hint).replace("typing.", ""))}
    found = {each for one in get_args(hint) for each in untyped(one, name, seen)}
    if dataclasses.is_dataclass(hint) and hint not in seen:
        seen.add(hint)
        for member, of in get_type_hints(hint).items():
            found |= untyped(of, member, seen)
    return found


@pytest.mark.parametrize("kind", PAYLOAD_CLASSES)
def test_no_payload_can_hold_a_number_that_temporal_would_make_a_string(kind: type) -> None:
    methods = [
        method
        for _, method in inspect.getmembers(kind, inspect.isfunction)
        if any(mark.startswith("__temporal_") for mark in vars(method))
    ]
    assert methods
    found = {
        each
        for method in methods
        for name, hint in get_type_hints(method).items()
        for each in untyped(hint, name, set())
    }
    assert found <= SETTINGS_WITH_FLOATS
