"""The database URL of PostgreSQL: one server or several, and options as for libpq."""

from __future__ import annotations

import pytest

from hookfast.storage.database.postgresql_servers import PostgresqlServers

SERVERS = {
    "postgresql://db/h": "db:5432",
    "postgres://u:p@db:6000/h": "db:6000",
    "postgresql+asyncpg://u:p@10.0.0.1/h": "10.0.0.1:5432",
    "postgresql://u:p@[fd00::1]:6000/h": "[fd00::1]:6000",
    "postgresql://u:p@db1,db2/h": "db1:5432, db2:5432",
    "postgresql://u:p@db1:1,db2:2,[::1]:3/h?target_session_attrs=read-write": "db1:1, db2:2, "
    "[::1]:3",
    "postgresql:///h?host=/run/postgresql": "/run/postgresql",
    "postgresql://%2Frun%2Fpostgresql/h": "/run/postgresql",
    "postgresql:///h?host=db1:1&host=db2:2": "db1:1, db2:2",
    "postgresql:///h?host=db1,db2&port=1,2": "db1:1, db2:2",
    "postgresql:///h?host=db1,db2&port=7": "db1:7, db2:7",
    "postgresql:///h": "localhost:5432",
}


@pytest.mark.parametrize(("url", "shown"), SERVERS.items())
def test_servers_are_read_from_the_url(url: str, shown: str) -> None:
    assert str(PostgresqlServers(url)) == shown


def test_user_password_and_database_may_have_escaped_characters() -> None:
    servers = PostgresqlServers("postgresql://u%40x:p%2F%3A%40@db/h%20h")
    assert (servers.user, servers._password, servers.database) == ("u@x", "p/:@", "h h")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sec@ret@db/h",
        "postgresql://u:p@db:0/h",
        "postgresql://u:p@db:65536/h",
        "postgresql://u:p@db:secret/h",
        "postgresql://u:p@db1,,db2/h",
        "postgresql://u:p@db1,db2:1:2/h",
        "postgresql://u:p@[fd00::1/h",
        "postgresql://u:p@db..secret/h",
        "postgresql://u:p@db1,db2/h?target_session_attrs=any",
        "postgresql://u:p@db/h?target_session_attrs=standby",
        "postgresql://u:p@db/h?target_session_attrs=secret",
        "postgresql:/secret",
    ],
)
def test_invalid_url_is_rejected_without_quoting_it(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"database URL|target_session_attrs|label|decod"
    ) as raised:
        PostgresqlServers(url)
    assert "sec" not in str(raised.value)
