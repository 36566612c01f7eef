"""Bodies are large, so every statement that reads one is listed here, with what bounds it. The
tests search the source of every module, so that no statement depends on being executed by a test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hookfast.storage.tables import Event, InboxEntry

ROOT = Path(__file__).parents[2]
FOLDERS = ("hookfast", "api", "activities", "workflows")
TABLES = frozenset({"Event", "InboxEntry"})
"""The tables with a column `body`."""
MEASURES = frozenset({"length", "small_body"})
"""Calls that do not read a large body of their argument."""

BOUNDS = {
    "hookfast/storage/deliveries/bodies.py:_READ": "a claim of its size in the worker's budget",
    "hookfast/storage/deliveries/outgoing.py:_FIND_EVENTS": "16 KiB, by `small_body`",
    "hookfast/storage/inbox/inbox_entries.py:_HEADS": "16 KiB, by `small_body`",
    "hookfast/storage/inbox/inbox_entries.py:get": "a claim of its size in the API's budget",
    "hookfast/storage/inbox/inbox_entries.py:body_part": "a part of 256 KiB, with a claim",
    "hookfast/storage/inbox/inbox_entries.py:_WHOLE": "a claim for each body of a stream; "
    "MAX_PAGE_BYTES of a poll",
    "hookfast/storage/events/events.py:get": "one body for each request to the API",
    "hookfast/storage/events/recent.py:load": "a claim of their size in the API's budget",
    "hookfast/storage/feed/feed.py:_with_bodies": "MAX_PAGE_BYTES, or one body",
}
"""Where a body is read, by module and name, and what bounds it there."""


@cache
def reads_in(source: str) -> list[tuple[str, int]]:
    """Return the functions and constants of a module that read a body, with the line of each."""
    if not any(name in source for name in TABLES):  # parsing all modules takes seconds
        return []
    return list(dict.fromkeys(_Module(ast.parse(source)).reads()))


class _Module:
    """A module's source. Names are looked up in the whole module without regard to scope: a name
    with two meanings finds too many reads, but never too few."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name in TABLES
        }
        known = -1
        while known != len(self._names):  # a name may be defined by others that are defined below
            known = len(self._names)
            for node in ast.walk(tree):
                self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        """Add the names that are other names of the tables or of their columns."""
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs.append((target, node.value))
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs += zip(target.elts, node.value.elts, strict=True)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            pairs.append((node.target, node.value))
        self._names |= {
            target.id
            for target, value in pairs
            if isinstance(target, ast.Name) and value is not None and self._is_table(value)
        }

    def _is_table(self, node: ast.expr) -> bool:
        """Whether an expression is a table, its columns or an alias of it."""
        match node:
            case ast.Name():
                return node.id in self._names
            case ast.Attribute(attr="__table__" | "c" | "columns"):
                return self._is_table(node.value)
            case ast.Call(func=ast.Attribute(attr="alias")):
                return self._is_table(node.func.value)  # type: ignore[attr-defined]
        return False

    def reads(self) -> Iterator[tuple[str, int]]:
        for top in self._tree.body:
            for node in self._unmeasured(top):
                if self._reads_body(node):
                    yield _name_of(top), node.lineno  # type: ignore[attr-defined]

    def _unmeasured(self, node: ast.AST) -> Iterator[ast.AST]:
        """Walk an expression. Arguments whose length is taken are listed by their call."""
        yield node
        if isinstance(node, ast.Call) and _called(node) == "length":
            return
        for child in ast.iter_child_nodes(node):
            yield from self._unmeasured(child)

    def _reads_body(self, node: ast.AST) -> bool:
        match node:
            case ast.Attribute(attr="body"):
                return self._is_table(node.value)
            case ast.Subscript(slice=ast.Constant(value="body")):
                return self._is_table(node.value)
            case ast.Call() if _called(node) in {"select", "subquery", "returning"}:
                # all columns, unless `length` or others are named
                return any(
                    self._is_table(one.value if isinstance(one, ast.Starred) else one)
                    for one in node.args
                )
        return False


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _name_of(top: ast.stmt) -> str:
    match top:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return top.name
        case ast.Assign(targets=[ast.Name() as target]):
            return target.id
        case ast.AnnAssign(target=ast.Name() as target):
            return target.id
    return f"line {top.lineno}"


def test_every_statement_that_reads_a_body_is_bounded() -> None:
    found: dict[str, int] = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            module = str(file.relative_to(ROOT))
            for name, line in reads_in(file.read_text(encoding="utf-8")):
                found.setdefault(f"{module}:{name}", line)
    unbounded = {place: line for place, line in found.items() if place not in BOUNDS}
    assert not unbounded, "say in BOUNDS what bounds the bodies that these hold"
    assert BOUNDS.keys() == found.keys(), "BOUNDS lists places that read no body"


@pytest.mark.parametrize("table", [Event, InboxEntry])
def test_body_is_the_last_column(table: type[Event] | type[InboxEntry]) -> None:
    """Otherwise SQLite reads 5 MB to find the columns behind it: 100 ms for 64 rows."""
    assert table.__table__.c.keys()[-1] == "body"


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return select(Event)",
        "def f(): return select(Event.__table__)",
        "_E = Event.__table__.c\ndef f(): return select(_E.id, _E.body)",
        "_C = _TABLE.c\n_TABLE: Table = InboxEntry.__table__\ndef f(): return select(_C['body'])",
        "def f():\n  c = InboxEntry.__table__.c\n  return select(c.id, func.max(c.body))",
        "def f(): return select(*Event.__table__.c)",
        "def f(): return select(Event.body)",
        "def f(): return update(Event).returning(Event.__table__)",
        "def f(): return select(Event.__table__.alias('e').c.body)",
    ],
)
def test_statement_that_reads_a_body_is_found(source: str) -> None:
    tables = "from hookfast.storage.tables import Event, InboxEntry\n"
    assert [name for name, _ in reads_in(tables + source)] == ["f"]


@pytest.mark.parametrize(
    "source",
    [
        "_E = Event.__table__.c\ndef f(): return select(_E.id, func.length(_E.body))",
        "def f(event): return event.body",
        "def f(): return select(Event.id)",
    ],
)
def test_statement_that_reads_no_body_is_not_found(source: str) -> None:
    assert reads_in("from hookfast.storage.tables import Event, InboxEntry\n" + source) == []
