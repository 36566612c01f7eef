"""Only `storage.deliveries.lives` writes the state of a delivery, with the statements of
`life_rows`. The tests search the source of every module for other writes, so that no write depends
on being executed by a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from hookfast.storage.deliveries import life_rows
from hookfast.storage.tables import Delivery

ROOT = Path(__file__).parents[2]
FOLDERS = ("hookfast", "api", "activities", "workflows")
WRITER = "hookfast/storage/deliveries/life_rows.py"
SAVES = re.compile(r"\blife_rows\.save|\bsave_and_(wake|start)\b|life_rows import[^\n]*\bsave")
ALLOWED = {
    "started_at",
    "leased_until",
    "wake_count",
    "urgency",
    "signals_applied",
    "batch_id",
    "batch_until",
}
"""The columns that other modules may write: the outbox, and the mark of applied signals."""
UNKNOWN = "?"
"""Stands for a column if the source does not show which one is written."""

_SQL = re.compile(r'\bUPDATE\s+(ONLY\s+)?"?deliveries\b', re.IGNORECASE)
_SQL_OF_SOME_TABLE = re.compile(r'\bUPDATE\s+(ONLY\s+)?"?$')


@dataclass(frozen=True)
class Write:
    """An UPDATE of `deliveries`, and the columns that it sets."""

    line: int
    columns: frozenset[str]


@cache
def writes_in(source: str) -> list[Write]:
    """Return every UPDATE of `deliveries` in a module."""
    if "update" not in source.casefold():  # parsing all modules takes seconds
        return []
    return list(_Module(ast.parse(source)).writes())


@dataclass
class _Module:
    """A module's source. Names are looked up in the whole module without regard to scope: a name
    with two meanings finds too many writes, but never too few."""

    tree: ast.Module
    assigned: dict[str, list[ast.expr]] = field(default_factory=dict)
    models: set[str] = field(default_factory=lambda: {"Delivery"})
    updates: set[str] = field(default_factory=lambda: {"update"})
    docstrings: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.NamedExpr(target=target, value=value):
                    self._assign(target, value)
                case ast.alias(name="Delivery", asname=str(name)):
                    self.models.add(name)
                case ast.alias(name="update", asname=str(name)):
                    self.updates.add(name)
                case ast.Expr(value=ast.Constant(value=str()) as text):
                    self.docstrings.add(id(text))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)

    def writes(self) -> Iterator[Write]:
        inside = {id(link) for node in ast.walk(self.tree) for link in _links_below(node)}
        for node in ast.walk(self.tree):
            match node:
                case ast.Call() if id(node) not in inside and self._is_update(node):
                    # the outermost call of a chain: `update(…).where(…).values(…)`
                    if columns := self._set_by(node):
                        yield Write(node.lineno, columns)
                case ast.Call(func=ast.Attribute(attr="execute"), args=[statement, given, *_]):
                    # parameters named like a column set the column too
                    if self._is_update(statement):
                        columns = self._keys(given) & set(Delivery.__table__.c.keys())
                        if columns or UNKNOWN in self._keys(given):
                            yield Write(node.lineno, frozenset(columns or {UNKNOWN}))
                case ast.Constant(value=str(text)) if id(node) not in self.docstrings:
                    if _SQL.search(text):
                        yield Write(node.lineno, frozenset({UNKNOWN}))
                case ast.JoinedStr(values=parts):
                    texts = (part.value for part in parts[:-1] if isinstance(part, ast.Constant))
                    if any(_SQL_OF_SOME_TABLE.search(str(text)) for text in texts):
                        yield Write(node.lineno, frozenset({UNKNOWN}))

    def _is_table(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        match node:
            case ast.Name(id=name) if name not in seen:
                if name in {*self.models, "_DELIVERIES"}:  # imported from a module that has it
                    return True
                values = self.assigned.get(name, [])
                return any(self._is_table(value, seen | {name}) for value in values)
            case ast.Attribute(attr="Delivery"):
                return True
            case ast.Attribute(attr="__table__", value=model):
                return self._is_table(model, seen)
            case ast.Subscript(slice=ast.Constant(value="deliveries")):
                return True  # of `metadata.tables`
            case ast.Call(args=[ast.Constant(value="deliveries"), *_]):
                return _name_of(node.func) in ("Table", "table")
            case _:
                return False

    def _is_update(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether this is an UPDATE of `deliveries`, or an INSERT that may become one."""
        match node:
            case ast.Name(id=name) if name not in seen:
                values = self.assigned.get(name, [])
                return any(self._is_update(value, seen | {name}) for value in values)
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)):
                if attr == "update" and self._is_table(inner):
                    return True
                if attr == "on_conflict_do_update":
                    return any(_is_insert(link) and self._of_table(link) for link in _chain(node))
                if attr == "update":
                    return self._of_table(node)  # `sa.update(…)`
                return self._is_update(inner, seen)
            case ast.Call(func=ast.Name(id=name)) if name in self.updates:
                return self._of_table(node)
            case _:
                return False

    def _of_table(self, call: ast.Call) -> bool:
        return any(self._is_table(argument) for argument in call.args[:2])

    def _set_by(self, outermost: ast.Call) -> frozenset[str]:
        """Return the columns that a chain of calls sets. A chain without `.values(…)` sets the
        parameters it is executed with, unless another statement extends it."""
        columns: set[str] = set()
        calls = list(_chain(outermost))
        inserts = any(_is_insert(call) for call in calls)
        for call in calls:
            match _name_of(call.func):
                case "values" if not inserts:
                    for argument in call.args:
                        columns |= self._keys(argument)
                    columns |= self._keywords(call)
                case "on_conflict_do_update":
                    for keyword in call.keywords:
                        if keyword.arg == "set_":
                            columns |= self._keys(keyword.value)
        if not columns and not self._is_built_on(outermost):
            columns = {UNKNOWN}
        return frozenset(columns)

    def _is_built_on(self, call: ast.Call) -> bool:
        names = {name for name, values in self.assigned.items() if call in values}
        return any(
            isinstance(node, ast.Attribute)
            and node.attr not in ("execute", "scalars")
            and isinstance(node.value, ast.Name)
            and node.value.id in names
            for node in ast.walk(self.tree)
        )

    def _keywords(self, call: ast.Call) -> set[str]:
        columns: set[str] = set()
        for keyword in call.keywords:
            columns |= {keyword.arg} if keyword.arg is not None else self._keys(keyword.value)
        return columns

    def _keys(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> set[str]:
        """Return the columns that are the keys of a dict."""
        match node:
            case ast.Dict(keys=keys, values=values):
                columns: set[str] = set()
                for key, value in zip(keys, values, strict=True):
                    columns |= self._keys(value, seen) if key is None else {_column(key)}
                return columns
            case ast.Call(func=ast.Name(id="dict"), args=[]):
                return self._keywords(node)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return self._keys(left, seen) | self._keys(right, seen)
            case ast.List(elts=[*rows]) if rows:
                return set().union(*(self._keys(row, seen) for row in rows))
            case ast.Name(id=name) if name in self.assigned and name not in seen:
                found = (self._keys(value, seen | {name}) for value in self.assigned[name])
                return set().union(*found)
            case _:
                return {UNKNOWN}


def _chain(node: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls of `a(…).b(…).c(…)`, the last one first."""
    while isinstance(node, ast.Call):
        yield node
        if not isinstance(node.func, ast.Attribute):
            return
        node = node.func.value


def _links_below(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of the chain on which this call is made."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _chain(node.func.value)


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_insert(call: ast.Call) -> bool:
    return _name_of(call.func).endswith(("insert", "insert_into"))


def _column(key: ast.expr) -> str:
    """Return the column that a key names: `"status"`, `_C.status`, `_C["status"]`."""
    match key:
        case ast.Constant(value=str(name)) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case _:
            return UNKNOWN


# -- the modules ----------------------------------------------------------------------------------


def modules() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_nothing_but_lives_writes_the_state_of_a_delivery() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{write.line} sets {', '.join(sorted(write.columns - ALLOWED))}"
        for path in modules()
        if path.relative_to(ROOT).as_posix() != WRITER
        for write in writes_in(path.read_text())
        if not write.columns <= ALLOWED
    ]
    assert not found, "give `lives.apply` a fact instead:\n" + "\n".join(found)


def test_only_lives_saves_rows_of_lives() -> None:
    saving = {
        path.relative_to(ROOT).as_posix()
        for path in modules()
        if SAVES.search(path.read_text()) and path.relative_to(ROOT).as_posix() != WRITER
    }
    assert saving == {"hookfast/storage/deliveries/lives.py"}


def test_others_may_write_no_column_of_the_state() -> None:
    assert not life_rows.WRITTEN & ALLOWED
    assert set(Delivery.__table__.c.keys()) > life_rows.WRITTEN | ALLOWED


def test_lives_writes_all_of_the_state() -> None:
    for statement in (life_rows._SAVE, life_rows._SAVE_AND_WAKE):
        written = set(statement.declared.compile().params)
        assert {f"b_{name}" for name in life_rows.WRITTEN} <= written


def test_every_update_in_the_source_is_found() -> None:
    """At least as many as a search for the words finds, and those of the writer itself."""
    words = re.compile(r"update\(\s*_DELIVERIES\b")
    for path in modules():
        source = path.read_text()
        assert len(writes_in(source)) >= len(words.findall(source)), path
    writes = writes_in((ROOT / WRITER).read_text())
    assert any(UNKNOWN in write.columns for write in writes)  # these would be reported


# -- the finder -----------------------------------------------------------------------------------

BOUND = """
from hookfast.storage.tables import Delivery, Event
_DELIVERIES: Table = Delivery.__table__
_EVENTS: Table = Event.__table__
_C = _DELIVERIES.c
"""


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ("update(_DELIVERIES).values(status='dead')", {"status"}),
        (
            "update(_DELIVERIES).where(_C.id == 1).values(due_at=None, signals_applied=x)",
            {"due_at", "signals_applied"},
        ),
        ("_MARK = update(_DELIVERIES).values(round=1).returning(_C.id)", {"round"}),
        ("sa.update(_DELIVERIES).values(status='dead')", {"status"}),
        ("_DELIVERIES.update().values(status='dead')", {"status"}),
        ("update(Delivery).values(status='dead')", {"status"}),
        ("update(Delivery.__table__).values(status='dead')", {"status"}),
        ("update(tables.Delivery.__table__).values(status='dead')", {"status"}),
        ("from x import Delivery as D\nupdate(D).values(status='dead')", {"status"}),
        ("update(metadata.tables['deliveries']).values(status='dead')", {"status"}),
        ("t = sa.table('deliveries', sa.column('id'))\nupdate(t).values(id=1)", {"id"}),
        ("T = _DELIVERIES\nupdate(T).values(status='dead')", {"status"}),
        # a dict in any form
        ("update(_DELIVERIES).values({'status': 1, _C.reason: 2})", {"status", "reason"}),
        ("update(_DELIVERIES).values({_C['status']: 1})", {"status"}),
        (
            "_STATE = {'status': 1}\nupdate(_DELIVERIES).values(**_STATE, wake_count=1)",
            {"status", "wake_count"},
        ),
        ("_STATE = dict(status=1)\nupdate(_DELIVERIES).values(_STATE)", {"status"}),
        ("update(_DELIVERIES).values(**{'status': 1} | {'reason': 2})", {"status", "reason"}),
        ("update(_DELIVERIES).values(**{**{'status': 1}})", {"status"}),
        ("update(_DELIVERIES).values({name: 1 for name in names})", {UNKNOWN}),
        ("def f(values):\n update(_DELIVERIES).values(values)", {UNKNOWN}),
        ("def f(**values):\n update(_DELIVERIES).values(**values)", {UNKNOWN}),
        # a statement in parts
        ("s = update(_DELIVERIES)\ns = s.where(_C.id == 1)\ns.values(status=1)", {"status"}),
        # no values: it writes the parameters it is executed with
        ("execute(update(_DELIVERIES).where(_C.id == 1), {'status': 1})", {UNKNOWN}),
        (
            "_S = update(_DELIVERIES).values(signals_applied=1)\nc.execute(_S, {'status': 1})",
            {"signals_applied", "status"},
        ),
        (
            "c.execute(update(_DELIVERIES).values(signals_applied=1), [{'status': 1}])",
            {"signals_applied", "status"},
        ),
        # an insert that updates
        (
            "insert(_DELIVERIES).values(row).on_conflict_do_update(set_={'status': 1})",
            {"status"},
        ),
        (
            "insert_into(c, _DELIVERIES).values(row).on_conflict_do_update(set_={'status': 1})",
            {"status"},
        ),
        # SQL
        ("text('UPDATE deliveries SET status = 1')", {UNKNOWN}),
        ("text('update\\n only \"deliveries\" set status = 1')", {UNKNOWN}),
        ("text(f'UPDATE deliveries SET {column} = 1')", {UNKNOWN}),
        ("text(f'UPDATE {table} SET status = 1')", {UNKNOWN}),
    ],
)
def test_an_update_is_found_with_its_columns(source: str, columns: set[str]) -> None:
    found = [write.columns for write in writes_in(BOUND + source)]
    assert set().union(*found) == columns


def test_a_write_is_reported_with_its_line() -> None:
    source = (
        "\n\nasync def end(c):\n    await c.execute(\n        update(Delivery).values(round=1))"
    )
    assert writes_in(source) == [Write(5, frozenset({"round"}))]


@pytest.mark.parametrize(
    "source",
    [
        "select(_DELIVERIES).where(_C.status == 'dead').with_for_update()",
        "delete(_DELIVERIES).where(_C.status == 'dead')",
        "insert(_DELIVERIES).values(status='pending')",
        "c.execute(insert(_DELIVERIES), [{'status': 'pending'}])",
        "update(_EVENTS).values(deliveries=1, status='dead')",
        "c.execute(update(_EVENTS).values(deliveries=1), {'status': 1})",
        "digest.update(body)",
        '"""UPDATE deliveries: a docstring."""',
        "log.info('An update of deliveries.')",
        "text('SELECT 1 FROM deliveries FOR UPDATE')",
        "text(f'UPDATE events SET {column} = 1')",
    ],
)
def test_other_statements_are_not_reported(source: str) -> None:
    assert writes_in(BOUND + source) == []
