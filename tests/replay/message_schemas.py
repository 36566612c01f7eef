"""Compares the JSON schemas of a message in two versions: can one read what the other writes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_NUMBERS = ("integer", "number")


def unreadable(written: Schema, read: Schema) -> list[str]:
    """Return what a version with the schema `read` cannot read, or reads differently, of a message
    that a version with the schema `written` writes. Fields that have their default are not written.
    """
    return sorted(set(_Comparison(written, read).walk(written, read, "")))


class _Comparison:
    def __init__(self, written: Schema, read: Schema) -> None:
        self._written = written
        self._read = read
        self._seen: set[tuple[Any, Any]] = set()

    def walk(self, written: Schema, read: Schema, at: str) -> Iterator[str]:
        refs = written.get("$ref"), read.get("$ref")
        if all(refs):
            if refs in self._seen:
                return
            self._seen.add(refs)
        written, read = _resolved(written, self._written), _resolved(read, self._read)
        if options := _options(written):
            for option in options:
                yield from self._one_of(option, _options(read) or [read], at)
        elif readers := _options(read):
            yield from self._one_of(written, readers, at)
        elif new := [one for one in _values(written) if _values(read) and one not in _values(read)]:
            yield f"{at or 'it'} may be {', '.join(map(str, new))}, which is unknown"
        elif not _same_type(written, read):
            yield f"{at or 'it'} is {written.get('type')}, and was {read.get('type')}"
        else:
            yield from self._fields(written, read, at)
            for part in ("items", "additionalProperties"):
                if isinstance(written.get(part), dict) and isinstance(read.get(part), dict):
                    yield from self.walk(written[part], read[part], f"{at}[]")
            places = zip(written.get("prefixItems", ()), read.get("prefixItems", ()), strict=False)
            for number, (one, other) in enumerate(places):
                yield from self.walk(one, other, f"{at}[{number}]")

    def _fields(self, written: Schema, read: Schema, at: str) -> Iterator[str]:
        ours, theirs = written.get("properties", {}), read.get("properties", {})
        for name in read.get("required", ()):
            if name not in written.get("required", ()):
                yield f"{at}.{name} is required, and not always written"
        for name in ours.keys() & theirs.keys():
            defaults = ours[name].get("default"), theirs[name].get("default")
            if defaults[0] != defaults[1]:
                yield f"{at}.{name} is {defaults[0]} where it is left out, and was {defaults[1]}"
            yield from self.walk(ours[name], theirs[name], f"{at}.{name}")

    def _one_of(self, written: Schema, readers: list[Schema], at: str) -> Iterator[str]:
        """Yield the fewest differences from any of the reader's forms."""
        seen, fewest = set(self._seen), None
        for reader in readers:
            self._seen = set(seen)
            found = list(self.walk(written, reader, at))
            if fewest is None or len(found) < len(fewest):
                fewest = found
        yield from fewest or ()


def _resolved(schema: Schema, root: Schema) -> Schema:
    while ref := schema.get("$ref"):
        schema = root["$defs"][ref.removeprefix("#/$defs/")]
    return schema


def _options(schema: Schema) -> list[Schema]:
    return list(schema.get("anyOf", ()))


def _values(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _same_type(written: Schema, read: Schema) -> bool:
    ours, theirs = written.get("type"), read.get("type")
    return ours == theirs or theirs is None or (ours, theirs) == _NUMBERS
