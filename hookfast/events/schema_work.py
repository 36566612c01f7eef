"""Bounds the work that a JSON Schema may make of one value of the data. Pure.

References and `anyOf` apply many subschemas to one value, and at each level of the data twice as
many if a schema refers to itself twice. So the subschemas that can apply to one value are counted,
level by level, down to the deepest data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from hookfast.events.schema_keywords import Pattern
from hookfast.events.subschemas import MAPS, Path, Subschemas, subschemas

MAX_WORK: Final = 20_000
"""For one value. A keyword of the validator counts as one, and so does each of its names."""
_OURS: Final = frozenset(
    {
        "enum", "exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf",
        "pattern", "uniqueItems",
    }
)  # fmt: skip
_OURS_COUNTS: Final = 30
"""A keyword that Python applies counts as so many of the validator's."""
MAX_DEPTH: Final = 64
_MAX_STEPS: Final = 500_000
"""Additions while counting: about a fifth of a second."""
_CHEAP_PATTERN: Final = 100
"""A larger pattern has a limit of its own."""

_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
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


def work_of(schema: Any, parts: Subschemas, patterns: Mapping[str, Pattern]) -> int:
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
        self._in_place: dict[int, list[list[dict[str, Any]]]] = {}
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
        self._take_steps(len(counts))
        work = sum(self._weights[one] * count for one, count in counts.items())
        if work > MAX_WORK:
            raise TooMuchWork
        self._most = max(self._most, work)

    def _add(self, counts: _Counts, more: _Counts, *, times: int = 1) -> None:
        self._take_steps(len(more))
        for one, count in more.items():
            counts[one] += count * times

    def _raise_to(self, most: _Counts, counts: _Counts) -> None:
        self._take_steps(len(counts))
        for one, count in counts.items():
            if count > most[one]:
                most[one] = count

    def _take_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise TooMuchWork

    def _applied_with(self, schema: dict[str, Any]) -> _Counts:
        """Return what applies to a value to which a subschema is applied, with the subschema."""
        if id(schema) not in self._together:
            self._count_together(schema)
        return self._together[id(schema)]

    def _count_together(self, schema: dict[str, Any]) -> None:
        # with a stack of its own, because references may lead on a thousand times
        stack = [(schema, self._each_in_place(schema))]
        open_ = {id(schema)}
        while stack:
            one, rest = stack[-1]
            waiting = next((each for each in rest if id(each) not in self._together), None)
            if waiting is None:
                stack.pop()
                open_.discard(id(one))
                self._together[id(one)] = self._sum(one)
            elif id(waiting) in open_:
                raise Endless(self._parts.paths[id(waiting)])
            else:
                stack.append((waiting, self._each_in_place(waiting)))
                open_.add(id(waiting))

    def _each_in_place(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._in_place[id(schema)] = choices = self._find_in_place(schema)
        return (one for choice in choices for one in choice)

    def _sum(self, schema: dict[str, Any]) -> _Counts:
        counts: _Counts = Counter({id(schema): 1})
        # an `unevaluated…` applies them once more, to know which members they evaluate
        times = 2 if any(name in schema for name in _UNEVALUATED) else 1
        for choice in self._in_place[id(schema)]:
            most: _Counts = Counter()
            for one in choice:
                self._raise_to(most, self._together[id(one)])
            self._add(counts, most, times=times)
        return counts

    def _find_in_place(self, schema: dict[str, Any]) -> list[list[dict[str, Any]]]:
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
        # for any element and any member, and how each place differs from these
        anywhere: dict[str, _Counts] = {
            "element": Counter(),
            "member": Counter(),
            "name": Counter(),
        }
        places: dict[tuple[str, str | int], _Counts] = {}
        for one, count in level.items():
            schema = self._by_id[one]
            others: dict[str, list[dict[str, Any]]] = {"element": [], "member": []}
            for kind, below in _children(schema, _ELSEWHERE):
                self._add(anywhere[kind], self._applied_with(below), times=count)
                others[kind].append(below)
            for kind, below in _children(schema, _EVERYWHERE):
                self._add(anywhere[kind], self._applied_with(below), times=count)
            for keyword, kind in _PLACES.items():
                for path, below in subschemas({keyword: schema.get(keyword)}):
                    at = places.setdefault((kind, path[1]), Counter())
                    if isinstance(below, dict):
                        self._add(at, self._applied_with(below), times=count)
                    for other in others[kind]:
                        self._add(at, self._applied_with(other), times=-count)
        most: _Counts = Counter()
        for counts in anywhere.values():
            self._count(counts)
            self._raise_to(most, counts)
        for (kind, _), counts in places.items():
            self._add(counts, anywhere[kind])
            self._count(counts)
            self._raise_to(most, counts)
        return most


_PLACES: Final = {"properties": "member", "prefixItems": "element"}
_ELSEWHERE: Final = {
    "additionalProperties": "member",
    "items": "element",
    "unevaluatedItems": "element",
    "unevaluatedProperties": "member",
}
"""They apply to what the keywords of _PLACES beside them do not."""
_EVERYWHERE: Final = {"contains": "element", "patternProperties": "member", "propertyNames": "name"}


def _children(
    schema: dict[str, Any], keywords: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the subschemas of these keywords that are objects, each with the kind of value that it
    applies to."""
    for path, one in subschemas({name: schema[name] for name in keywords if name in schema}):
        if isinstance(one, dict):
            yield keywords[str(path[0])], one


def _rules(schema: dict[str, Any]) -> int:
    return len(schema) + sum(
        len(schema[name]) for name in _ENTRIES if isinstance(schema.get(name), dict | list)
    )


def _weight(schema: dict[str, Any], patterns: Mapping[str, Pattern]) -> int:
    used = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    used += schema.get("patternProperties", ())
    ours = _OURS_COUNTS * len(_OURS & schema.keys())
    return (
        _rules(schema)
        + ours
        + sum(min(patterns[one].translated.places, _CHEAP_PATTERN) for one in used)
    )
