"""The outbox table as a migration creates and drops it."""

from __future__ import annotations

import io

import psycopg
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

import hookfast_client.outbox.alembic  # noqa: F401 - adds the operations
from hookfast_client.outbox import create_sql, drop_sql

_OBJECTS = """
    SELECT count(*) FROM (
      SELECT relname AS name FROM pg_class UNION ALL SELECT proname FROM pg_proc
      UNION ALL SELECT tgname FROM pg_trigger
    ) AS objects WHERE name LIKE 'events_out%'
"""


def count_objects(url: str) -> int:
    with psycopg.connect(url) as connection:
        [count] = connection.execute(_OBJECTS).fetchone() or [0]
        return int(count)


def test_alembic_creates_and_drops_what_the_script_does(outbox_url: str) -> None:
    with psycopg.connect(outbox_url) as connection:
        connection.execute(create_sql("events_out").encode())
    created = count_objects(outbox_url)
    assert created == 8  # table, identity, three indexes and that of the key, function, trigger
    with psycopg.connect(outbox_url) as connection:
        connection.execute(drop_sql("events_out").encode())
    assert count_objects(outbox_url) == 0
    engine = create_engine(outbox_url.replace("://", "+psycopg://"), poolclass=NullPool)
    for notify, objects in ((True, created), (False, created - 2)):
        with engine.begin() as connection:
            op = Operations(MigrationContext.configure(connection))
            op.create_hookfast_outbox("events_out", notify=notify)  # type: ignore[attr-defined]
        assert count_objects(outbox_url) == objects
        with engine.begin() as connection:
            op = Operations(MigrationContext.configure(connection))
            op.drop_hookfast_outbox("events_out")  # type: ignore[attr-defined]
        assert count_objects(outbox_url) == 0


def test_alembic_writes_the_script_offline() -> None:
    output = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": output}
    )
    Operations(context).create_hookfast_outbox()  # type: ignore[attr-defined]
    assert output.getvalue().replace("\n\n", "\n").strip() == create_sql().strip()
