"""Prepared statements send what SQLAlchemy would send for the same rows."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, bindparam, insert, select, update
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.engine import Dialect

from hookfast.storage.database.prepared import AnyOf, compile_for
from hookfast.storage.tables import Delivery, Event

NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)
ELSEWHERE = NOW.astimezone(timezone(timedelta(hours=5)))
ROWS = {
    Event.__table__: [
        {"id": "evt_1", "type": "a.b", "body": b"{}", "created_at": NOW, "deliver_at": None},
        {"id": "evt_2", "type": "a.b", "body": b"[]", "created_at": ELSEWHERE, "deliver_at": NOW},
    ],
    Delivery.__table__: [{"id": "dlv_1", "created_at": NOW, "due_at": NOW, "finished_at": None}],
}
TABLE = Table("t", MetaData(), Column("id", String), Column("n", Integer, default=lambda: 1))
POSTGRESQL, SQLITE = asyncpg.dialect(), aiosqlite.dialect()


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL], ids=["sqlite", "pg"])
@pytest.mark.parametrize("table", ROWS, ids=lambda table: table.name)
def test_prepared_insert_sends_what_sqlalchemy_sends(table: Table, dialect: Dialect) -> None:
    rows = ROWS[table]
    statement = compile_for(insert(table).inline(), dialect, list(rows[0]))
    compiled: Any = insert(table).compile(dialect=dialect, column_keys=list(rows[0]))
    assert statement.sql == compiled.string
    for row, sent in zip(rows, statement.parameters(rows), strict=True):
        by_name = dict(zip(compiled.positiontup, sent, strict=True))
        for name, value in row.items():
            convert = compiled._bind_processors.get(name)
            assert by_name.pop(name) == (value if convert is None else convert(value))
        for name, value in by_name.items():
            assert value == table.c[name].default.arg


def test_prepared_insert_rejects_columns_with_a_default_computed_per_row() -> None:
    with pytest.raises(TypeError, match="not a constant"):
        compile_for(insert(TABLE).inline(), SQLITE, ["id"])


def test_rows_without_a_column_of_the_first_row_are_rejected() -> None:
    statement = compile_for(insert(Event.__table__).inline(), SQLITE, ["id", "type"])
    with pytest.raises(KeyError):
        statement.parameters([{"id": "evt_1", "type": "a.b"}, {"id": "evt_2"}])


def test_statement_for_many_rows_has_an_array_for_each_parameter() -> None:
    added = compile_for(insert(TABLE).inline(), POSTGRESQL, ["id", "n"])
    assert added.arrays == (
        "INSERT INTO t (id, n) SELECT given.p1, given.p2"
        " FROM unnest($1::TEXT[], $2::INTEGER[]) AS given(p1, p2)"
    )
    number = bindparam("number", type_=Integer())
    by_id = TABLE.c.id == bindparam("b_id")
    changed = update(TABLE).where(by_id).values(n=TABLE.c.n + number * 2)
    assert compile_for(changed, POSTGRESQL).arrays == (
        "UPDATE t SET n=(t.n + given.p1 * given.p2)"
        " FROM unnest($1::INTEGER[], $2::INTEGER[], $3::TEXT[]) AS given(p1, p2, p3)"
        " WHERE t.id = given.p3"
    )
    assert compile_for(changed, SQLITE).arrays is None


def parameter(column: Any, ids: Collection[str], dialect: Dialect) -> Any:
    statement = compile_for(select(column).where(AnyOf(column, "ids")), dialect)
    [(sent,)] = statement.parameters([{"ids": ids}])
    return sent


def test_any_number_of_texts_is_one_parameter() -> None:
    name = TABLE.c.id
    assert parameter(name, {"a"}, SQLITE) == '["a"]'
    assert parameter(name, {"a"}, POSTGRESQL) == ["a"]
    assert parameter(name, (), SQLITE) == "[]"


def test_few_unique_keys_are_as_many_as_postgresql_expects() -> None:
    """For fewer, it would plan the statement again at each execution."""
    key = Event.__table__.c.id
    assert parameter(key, ["a", "b"], POSTGRESQL) == ["a", *["b"] * 9]
    assert parameter(key, [], POSTGRESQL) == []
    assert len(parameter(key, [str(n) for n in range(12)], POSTGRESQL)) == 12
