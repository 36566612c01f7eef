"""Bounds the work that a JSON Schema may make of one value of the data. Pure.

References and `anyOf` apply many subschemas to one value, and at each level of the data twice as
many if a schema refers to itself twice. So the subschemas that can apply to one value are counted,
level by level, down to the deepest data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from hookfast.events.pattern import Translated
from hookfast.events.subschemas import MAPS, Path, Subschemas, subschemas

MAX_WORK: Final = 20_000
"""For one value. A keyword of the validator counts as one, and so does each of its names."""
_OURS: Final = {"enum": 30, "pattern": 30, "uniqueItems": 30}
"""The keywords that Python checks take longer."""
MAX_DEPTH: Final = 64
_MAX_STEPS: Final = 500_000
"""Additions while counting: about half a second."""
_CHEAP_PATTERN: Final = 100
"""A larger pattern has a limit of its own."""

_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
_ELEMENTS: Final = frozenset({"contains", "items", "unevaluatedItems"})
_MEMBERS: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_ENTRIES: Final = ("dependentRequired", "required", *MAPS - {"$defs", "definitions"})

_Counts: TypeAlias = "Counter[int]"
"""How often each subschema applies to one value, by its identity."""


class TooMuchWork(ValueError):
    """The schema may make too much work of one value."""


class Endless(ValueError):
    """A subschema applies to the same value again and again."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


def work_of(schema: Any, parts: Subschemas, patterns: Mapping[str, Translated]) -> int:
    """Return the most work that a schema makes of one value. Raises TooMuchWork, and Endless."""
    return _Work(parts, {id(one): _weight(one, patterns) for one in parts.all}).of(schema)


def rules_of(schema: Any, parts: Subschemas) -> int:
    """Return the most rules that one value can break. Raises TooMuchWork, and Endless."""
    return _Work(parts, {id(one): _rules(one) for one in parts.all}).of(schema)


class _Work:
    def __init__(self, parts: Subschemas, weights: Mapping[int, int]) -> None:
        self._parts = parts
        self._by_id = {id(one): one for one in parts.all}
        self._weights = weights
        self._together: dict[int, _Counts] = {}
        self._steps = 0
        self._most = 1

    def of(self, schema: Any) -> int:
        for one in self._parts.all:
            self._applied_with(one)
        if not isinstance(schema, dict):
            return 1
        level = self._applied_with(schema)
        self._count(level)
        for _ in range(MAX_DEPTH):
            below = self._below(level)
            if below == level:
                break
            level = below
        return self._most

    def _count(self, counts: _Counts) -> None:
        """Count what applies to one value."""
        work = sum(self._weights[one] * count for one, count in counts.items())
        if work > MAX_WORK:
            raise TooMuchWork
        self._most = max(self._most, work)

    def _add(self, counts: _Counts, more: _Counts, *, times: int = 1) -> None:
        self._steps += len(more)
        if self._steps > _MAX_STEPS:
            raise TooMuchWork
        for one, count in more.items():
            counts[one] += count * times

    def _applied_with(self, schema: dict[str, Any]) -> _Counts:
        """Return all that applies to a value to which a subschema is applied, with the subschema.

        It walks with a stack of its own, because references may lead on a thousand times.
        """
        stack = [schema]
        open_: set[int] = set()
        while stack:
            one = stack[-1]
            in_place = self._in_place(one)
            waiting = [each for choice in in_place for each in choice if not self._is_counted(each)]
            if not waiting:
                stack.pop()
                open_.discard(id(one))
                self._together[id(one)] = self._sum(one, in_place)
            elif id(waiting[0]) in open_ or waiting[0] is one:
                raise Endless(self._parts.paths[id(waiting[0])])
            else:
                open_.add(id(one))
                stack.append(waiting[0])
        return self._together[id(schema)]

    def _is_counted(self, schema: dict[str, Any]) -> bool:
        return id(schema) in self._together

    def _sum(self, schema: dict[str, Any], in_place: list[list[dict[str, Any]]]) -> _Counts:
        counts: _Counts = Counter({id(schema): 1})
        # an `unevaluated…` applies them once more, to know which members they evaluate
        times = 2 if any(name in schema for name in _UNEVALUATED) else 1
        for choice in in_place:
            most: _Counts = Counter()
            for one in choice:
                most |= self._together[id(one)]
            self._add(counts, most, times=times)
        return counts

    def _in_place(self, schema: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """Return what a subschema applies to the value itself: one of each list."""
        found = [[one] for path, one in subschemas(schema) if path[0] in _IN_PLACE]
        if isinstance(reference := schema.get("$ref"), str):
            found.append([self._parts.resolve(reference, within=schema)])
        if isinstance(reference := schema.get("$dynamicRef"), str):
            target = self._parts.resolve(reference, within=schema)
            anchor = target.get("$dynamicAnchor") if isinstance(target, dict) else None
            found.append(self._parts.dynamic[anchor] if isinstance(anchor, str) else [target])
        return [[one for one in choice if isinstance(one, dict)] for choice in found]

    def _below(self, level: _Counts) -> _Counts:
        """Return what applies to a value inside one to which `level` applies: the most of each
        subschema, over all members and elements."""
        rest: _Counts = Counter()
        places: dict[str | int, _Counts] = {}
        for one, count in level.items():
            for place, schema in self._children(self._by_id[one]):
                if isinstance(schema, dict):
                    at = rest if place is None else places.setdefault(place, Counter())
                    self._add(at, self._applied_with(schema), times=count)
        self._count(rest)
        most = Counter(rest)
        for counts in places.values():
            self._add(counts, rest)
            self._count(counts)
            most |= counts
        return most

    def _children(self, schema: dict[str, Any]) -> Iterator[tuple[str | int | None, Any]]:
        """Yield the subschemas for members and elements, each with the name or the index. None: it
        may apply to any."""
        for path, one in subschemas(schema):
            if path[0] in ("properties", "prefixItems"):
                yield path[1], one
            elif path[0] in _ELEMENTS or path[0] in _MEMBERS or path[0] == "propertyNames":
                yield None, one


def _rules(schema: dict[str, Any]) -> int:
    return len(schema) + sum(
        len(schema[name]) for name in _ENTRIES if isinstance(schema.get(name), dict | list)
    )


def _weight(schema: dict[str, Any], patterns: Mapping[str, Translated]) -> int:
    used = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    used += schema.get("patternProperties", ())
    ours = sum(weight for name, weight in _OURS.items() if name in schema)
    return _rules(schema) + ours + sum(min(patterns[one].size, _CHEAP_PATTERN) for one in used)
