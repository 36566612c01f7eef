"""Bounds the work that a JSON Schema may make of one value of the data. Pure.

References and `anyOf` apply many subschemas to one value, and at each level of the data twice as
many if a schema refers to itself twice for the same member. So the subschemas that can apply to one
value are counted, level by level, down to the deepest data, or to where they are too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from hookfast.events.schema_keywords import CHEAP_PLACES, Pattern, keywords
from hookfast.events.subschemas import MAPS, Path, Subschemas, subschemas
from hookfast.strict_json.tolerant import MAX_DEPTH

MAX_WORK: Final = 20_000
"""For one value on the first levels. A keyword of the validator counts as one, and so does each of
its names."""
_FIRST_LEVELS: Final = 2
_MOST_WORK: Final = 100_000_000
"""For one value on deeper levels: about a second. Data that are as deep are not checked."""
_OURS: Final = frozenset(keywords({}))
_OURS_COUNTS: Final = 30
"""A keyword that Python applies counts as so many of the validator's."""
_MAX_STEPS: Final = 500_000
"""Additions while counting, about half a second."""
_DEEPER_STEPS: Final = 100_000
"""Those of them for the deeper levels, if there are so many left."""

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


class Most(NamedTuple):
    """What a schema makes of one value at most."""

    work: int
    keywords: int
    """Those that the value can violate."""
    names: int
    """Those that it requires, of which each can be missing."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a schema makes of one value at most, in data of each depth."""

    by_depth: tuple[Most, ...]
    grows: bool
    """Whether deeper data would take too much. Otherwise they take as much as the last."""

    def at(self, depth: int) -> Most | None:
        """Return the most for data of this depth, None if it is too much."""
        if depth < len(self.by_depth):
            return self.by_depth[depth]
        return None if self.grows else self.by_depth[-1]


def work_of(schema: Any, parts: Subschemas, patterns: Mapping[str, Pattern]) -> Work:
    """Count the work of a schema. Raises TooMuchWork, and Endless."""
    return _Counter(parts, patterns).of(schema)


class _Counter:
    def __init__(self, parts: Subschemas, patterns: Mapping[str, Pattern]) -> None:
        self._parts = parts
        self._by_id = {id(one): one for one in parts.all}
        self._weights = {id(one): _weight(one, patterns) for one in parts.all}
        self._in_place: dict[int, list[list[dict[str, Any]]]] = {}
        self._together: dict[int, _Counts] = {}
        self._steps = 0

    def of(self, schema: Any) -> Work:
        for one in self._parts.all:
            self._applied_with(one)
        known: set[frozenset[tuple[int, int]]] = set()
        level = [self._applied_with(schema)] if isinstance(schema, dict) else []
        by_depth: list[Most] = []
        most = Most(1, 1, 1)
        while level and len(by_depth) <= MAX_DEPTH:
            most = Most(*map(max, zip(most, *map(self._total, level), strict=True)))
            if most.work > (MAX_WORK if len(by_depth) <= _FIRST_LEVELS else _MOST_WORK):
                break
            by_depth.append(most)
            if len(by_depth) == _FIRST_LEVELS + 1:
                self._steps = max(self._steps, _MAX_STEPS - _DEEPER_STEPS)
            try:
                level = [self._with_theirs(applied) for applied in self._new(level, known)]
            except TooMuchWork:
                break
        if level and len(by_depth) <= _FIRST_LEVELS:
            raise TooMuchWork
        return Work(tuple(by_depth or [most]), grows=bool(level))

    def _total(self, counts: _Counts) -> Most:
        each = [(self._weights[one], count) for one, count in counts.items()]
        return Most(*(sum(most[n] * count for most, count in each) for n in range(3)))

    def _new(
        self, level: Iterable[_Counts], known: set[frozenset[tuple[int, int]]]
    ) -> list[_Counts]:
        """Return what is applied to the values inside, where it is not known yet."""
        found: dict[frozenset[tuple[int, int]], _Counts] = {}
        for counts in level:
            for applied in self._below(counts):
                self._take_steps(len(applied))
                if (key := frozenset(applied.items())) not in known:
                    found[key] = applied
        known.update(found)
        return list(found.values())

    def _with_theirs(self, applied: _Counts) -> _Counts:
        """Return these subschemas with those that apply to a value with them."""
        counts: _Counts = Counter()
        for one, count in applied.items():
            self._add(counts, self._applied_with(self._by_id[one]), times=count)
        return counts

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

    def _below(self, level: _Counts) -> Iterator[_Counts]:
        """Yield which subschemas are applied to each of the values inside one to which `level`
        applies."""
        self._take_steps(len(level))
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
                anywhere[kind][id(below)] += count
                others[kind].append(below)
            for kind, below in _children(schema, _EVERYWHERE):
                anywhere[kind][id(below)] += count
            for keyword, kind in _PLACES.items():
                for path, below in subschemas({keyword: schema.get(keyword)}):
                    at = places.setdefault((kind, path[1]), Counter())
                    if isinstance(below, dict):
                        at[id(below)] += count
                    for other in others[kind]:
                        at[id(other)] -= count
        yield from anywhere.values()
        for (kind, _), counts in places.items():
            self._add(counts, anywhere[kind])
            yield +counts  # without those that do not apply


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


def _weight(schema: dict[str, Any], patterns: Mapping[str, Pattern]) -> Most:
    used = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    used += schema.get("patternProperties", ())
    work = (
        len(schema)
        + sum(len(schema[name]) for name in _ENTRIES if isinstance(schema.get(name), dict | list))
        + _OURS_COUNTS * len(_OURS & schema.keys())
        + sum(min(patterns[one].translated.places, CHEAP_PLACES) for one in used)
    )
    names = len(schema.get("required", ())) + sum(
        map(len, schema.get("dependentRequired", {}).values())
    )
    return Most(work, len(schema), names)
