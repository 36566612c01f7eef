"""Finds the subschemas of a JSON Schema (2020-12), and what its references lead to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

Path: TypeAlias = tuple[str | int, ...]

SINGLE: Final = frozenset(
    {
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS: Final = frozenset(
    {
        "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties",
        "properties",
    }
)  # fmt: skip
REFERENCES: Final = ("$ref", "$dynamicRef")


class Unresolvable(LookupError):
    """A reference leads to nothing in its schema, or out of it."""


class Ambiguous(LookupError):
    """Two subschemas have the same `$id` or anchor, so that a reference could lead to either."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def subschemas(schema: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the subschemas directly below a schema, each with its path from there."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if name in SINGLE:
            yield (name,), value
        elif name in LISTS and isinstance(value, list):
            for index, one in enumerate(value):
                yield (name, index), one
        elif name in MAPS and isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, dict | bool):  # `dependencies` may have lists of names
                    yield (name, key), one


class Subschemas:
    """All subschemas of a schema that can be applied: those below its keywords, and those elsewhere
    to which references lead."""

    def __init__(self, schema: Any) -> None:
        """Raises Ambiguous."""
        self.all: list[dict[str, Any]] = []
        """The subschemas that are objects, and the schema itself."""
        self.paths: dict[int, Path] = {}
        """The path of each, by its identity."""
        self.elsewhere: list[tuple[Path, dict[str, Any]]] = []
        """Those that are not below keywords. The metaschema of the whole does not describe them."""
        self.dynamic: dict[str, list[dict[str, Any]]] = {}
        """Those with each `$dynamicAnchor`."""
        self._bases: dict[int, str] = {}
        self._documents: dict[str, Any] = {"": schema}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._add(schema, (), base="")
        for one in self.all:  # grows meanwhile
            for name in REFERENCES:
                if isinstance(one.get(name), str):
                    self._add_target(one[name], one)

    def resolve(self, reference: str, *, within: dict[str, Any]) -> Any:
        """Return what a `$ref` within a subschema leads to, or where the search of a `$dynamicRef`
        begins (Core, section 8.2.3). Raises Unresolvable."""
        target, _ = self._resolve(reference, self._bases[id(within)])
        return target

    def _resolve(self, reference: str, base: str) -> tuple[Any, str]:
        """Return the target and its document."""
        document, fragment = _joined(base, reference)
        if document not in self._documents:
            raise Unresolvable
        if fragment and not fragment.startswith("/"):
            if (document, fragment) not in self._anchors:
                raise Unresolvable
            return self._anchors[document, fragment], document
        return _at(self._documents[document], fragment), document

    def _add_target(self, reference: str, schema: dict[str, Any]) -> None:
        try:
            target, document = self._resolve(reference, self._bases[id(schema)])
        except Unresolvable:
            return
        if isinstance(target, dict) and id(target) not in self.paths:
            # below an unknown keyword, or it would be known
            parts = _joined("", reference)[1].split("/")[1:]
            path = (*self.paths[id(self._documents[document])], *map(_unescaped, parts))
            self.elsewhere.append((path, target))
            self._add(target, path, base=document)

    def _add(self, schema: Any, path: Path, *, base: str) -> None:
        pending = [(schema, path, base)]
        while pending:
            schema, path, base = pending.pop()
            if not isinstance(schema, dict) or id(schema) in self.paths:
                continue
            if isinstance(schema.get("$id"), str):
                with suppress(Unresolvable):  # an invalid one, which the metaschema rejects
                    base, _ = _joined(base, schema["$id"])
                if self._documents.setdefault(base, schema) is not schema:
                    raise Ambiguous((*path, "$id"))
            self.all.append(schema)
            self.paths[id(schema)], self._bases[id(schema)] = path, base
            for name in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(name)
                if not isinstance(anchor, str):
                    continue
                if self._anchors.setdefault((base, anchor), schema) is not schema:
                    raise Ambiguous((*path, name))
            if isinstance(schema.get("$dynamicAnchor"), str):
                self.dynamic.setdefault(schema["$dynamicAnchor"], []).append(schema)
            found = [(one, (*path, *below), base) for below, one in subschemas(schema)]
            pending += reversed(found)


def _joined(base: str, reference: str) -> tuple[str, str]:
    """Return the absolute URL of a reference, without its fragment, and the fragment. Raises
    Unresolvable if it is no URL."""
    try:
        url, fragment = urldefrag(reference)
        return (urljoin(base, url) if url else base), unquote(fragment)
    except ValueError:
        raise Unresolvable from None


def _at(schema: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer. Raises Unresolvable."""
    for part in map(_unescaped, pointer.split("/")[1:]):
        if isinstance(schema, Mapping) and part in schema:
            schema = schema[part]
        elif isinstance(schema, list) and part.isdecimal() and int(part) < len(schema):
            schema = schema[int(part)]
        else:
            raise Unresolvable
    return schema


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
