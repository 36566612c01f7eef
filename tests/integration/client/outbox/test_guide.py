"""The SQL of docs/outbox.md works as it is written."""

from __future__ import annotations

import psycopg

from hookfast_client.outbox import create_sql, drop_sql
from tests.docs.fenced import DOCS, blocks
from tests.support.postgresql import PostgresqlServer


def test_the_guides_statements_work(postgresql_server: PostgresqlServer) -> None:
    create, *others = (
        block.text for block in blocks(DOCS / "outbox.md") if block.language == "sql"
    )
    assert create == create_sql()
    assert len(others) == 4
    with psycopg.connect(postgresql_server.url) as connection:
        connection.execute("CREATE ROLE your_application; CREATE ROLE your_relay")
        for statements in (create, *others, drop_sql()):
            connection.execute(statements.encode())
        connection.rollback()
