"""Generates an example from the keywords of a JSON Schema (2020-12). Pure.

The example is for people to read: it ignores `pattern`, `oneOf` and the like, so it may not be
valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_DEEPEST: Final = 8
_FORMATS: Final = {
    "date-time": "2026-11-20T11:15:00Z",
    "date": "2026-11-20",
    "time": "11:15:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "01a1ff95-077a-751e-9028-a51639b600bc",
    "ipv4": "192.0.2.1",
}


def example_of(schema: Any, *, depth: int = 0) -> Any:
    """Return a value like those that the schema describes; None if the schema is too general."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else None
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    return None if make is None else make(schema, depth)


def _object(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: example_of(each, depth=depth + 1) for name, each in properties.items()}


def _array(schema: dict[str, Any], depth: int) -> list[Any]:
    items = schema.get("items")
    return [example_of(items, depth=depth + 1)] if isinstance(items, dict) else []


def _string(schema: dict[str, Any], depth: int) -> str:
    return _FORMATS.get(str(schema.get("format")), "text")


def _number(schema: dict[str, Any], depth: int) -> Any:
    return next((schema[name] for name in ("minimum", "maximum") if name in schema), 1)


_MAKERS: Final[Mapping[str, Callable[[dict[str, Any], int], Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda schema, depth: True,
}
