"""Plain inserts send what SQLAlchemy would send for the same rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.engine import Dialect

from hookfast.storage.database.plain_insert import _compile
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


@pytest.mark.parametrize("dialect", [aiosqlite.dialect(), asyncpg.dialect()], ids=["sqlite", "pg"])
@pytest.mark.parametrize("table", ROWS, ids=lambda table: table.name)
def test_plain_insert_sends_what_sqlalchemy_sends(table: Table, dialect: Dialect) -> None:
    rows = ROWS[table]
    statement = _compile(table, list(rows[0]), dialect)
    compiled: Any = insert(table).compile(dialect=dialect, column_keys=list(rows[0]))
    assert statement.sql == compiled.string
    for row, sent in zip(rows, statement.parameters(rows), strict=True):
        by_name = dict(zip(compiled.positiontup, sent, strict=True))
        for name, value in row.items():
            convert = compiled._bind_processors.get(name)
            assert by_name.pop(name) == (value if convert is None else convert(value))
        for name, value in by_name.items():
            assert value == table.c[name].default.arg


def test_plain_insert_rejects_columns_with_a_default_computed_per_row() -> None:
    table = Table("t", MetaData(), Column("id", String), Column("n", Integer, default=lambda: 1))
    with pytest.raises(TypeError, match="not a constant"):
        _compile(table, ["id"], aiosqlite.dialect())


def test_rows_without_a_column_of_the_first_row_are_rejected() -> None:
    statement = _compile(Event.__table__, ["id", "type"], aiosqlite.dialect())
    with pytest.raises(KeyError):
        statement.parameters([{"id": "evt_1", "type": "a.b"}, {"id": "evt_2"}])
