"""What is wrong with a database is found out before work begins, in one line that says what to
run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url, text

from hookfast.cli.prepare import prepare
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.storage import preconditions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import is_current
from hookfast.storage.preconditions import find_obstacles
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.anyio

ROLE = 'od"d'


async def _refusal(url: str, folder: Path) -> str:
    """Return why Hookfast does not start on this database."""
    with pytest.raises(Misconfigured) as refused:
        await prepare(Settings(home=folder, database_url=url))
    assert "\n" not in refused.value.message
    return refused.value.message


def _run(url: str, *statements: str) -> None:
    with psycopg.connect(url.replace("+asyncpg", ""), autocommit=True) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement))  # type: ignore[arg-type]


def _name(url: str) -> str:
    return str(make_url(url).database)


@contextmanager
def _as_role(url: str) -> Iterator[str]:
    """Create a role without privileges, and return the URL with it."""
    quoted = ROLE.replace('"', '""')
    _run(url, f'CREATE ROLE "{quoted}" LOGIN')
    yield url.replace("://postgres:", "://od%22d:")
    _run(url, f'DROP OWNED BY "{quoted}"', f'DROP ROLE "{quoted}"')


@pytest.mark.parametrize("encoding", ["WIN1252", "LATIN1", "SQL_ASCII", "EUC_JP"])
async def test_database_that_cannot_hold_every_text_is_refused(
    postgresql_server: PostgresqlServer, tmp_path: Path, encoding: str
) -> None:
    with postgresql_server.without_tables(encoding=encoding) as url:
        said = await _refusal(url, tmp_path)
        assert f"has the encoding {encoding}; Hookfast needs UTF8" in said
        command = f"CREATE DATABASE \"{_name(url)}_utf8\" ENCODING 'UTF8' LOCALE 'C' TEMPLATE"
        assert command in said
        _run(url, command.replace("TEMPLATE", "TEMPLATE template0"))  # the advice works
        other = url.replace(_name(url), f"{_name(url)}_utf8")
        assert await prepare(Settings(home=tmp_path, database_url=other)) is not None
        _run(url, f'DROP DATABASE "{_name(url)}_utf8" WITH (FORCE)')


async def test_user_who_may_not_create_tables_gets_the_grant_to_run(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    with postgresql_server.without_tables() as url, _as_role(url) as theirs:
        said = await _refusal(theirs, tmp_path)
        assert 'The user od"d may not create tables in the schema public' in said
        grant = 'GRANT USAGE, CREATE ON SCHEMA "public" TO "od""d";'
        assert said.endswith(grant)
        _run(url, grant)
        assert await prepare(Settings(home=tmp_path, database_url=theirs)) is not None


async def test_user_who_may_not_use_the_schema_gets_the_grant_to_run(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    with postgresql_server.without_tables() as url, _as_role(url) as theirs:
        _run(url, 'CREATE SCHEMA "my hooks"')
        theirs += "&search_path=%22my%20hooks%22"
        said = await _refusal(theirs, tmp_path)
        grant = 'GRANT USAGE, CREATE ON SCHEMA "my hooks" TO "od""d";'
        assert said.endswith(grant)
        _run(url, grant)
        assert await prepare(Settings(home=tmp_path, database_url=theirs)) is not None
        _run(url, 'DROP SCHEMA "my hooks" CASCADE')


async def test_user_who_did_not_migrate_gets_the_grant_that_reading_and_writing_needs(
    postgresql_url: str, tmp_path: Path
) -> None:
    with _as_role(postgresql_url) as theirs:
        said = await _refusal(theirs, tmp_path)
        assert "may not read and write the tables of the schema public: alembic_version" in said
        grant = 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "public" TO "od""d";'
        assert said.endswith(grant)
        _run(postgresql_url, 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO "od""d"')
        assert "may not read and write" in await _refusal(theirs, tmp_path)
        _run(postgresql_url, grant)
        assert await prepare(Settings(home=tmp_path, database_url=theirs)) is not None


async def test_user_who_does_not_own_the_tables_is_told_who_does_before_a_migration(
    postgresql_url: str, tmp_path: Path
) -> None:
    _run(postgresql_url, "UPDATE alembic_version SET version_num = '0000'")
    with _as_role(postgresql_url) as theirs:
        _run(postgresql_url, 'GRANT ALL ON ALL TABLES IN SCHEMA public TO "od""d"')
        said = await _refusal(theirs, tmp_path)
    assert "may not change the tables, which belong to postgres." in said
    assert 'GRANT "postgres" TO "od""d";' in said


@pytest.mark.parametrize("path", ["hooks", "hooks,public", "%22Hooks%22,public"])
async def test_schema_that_is_missing_is_not_replaced_by_the_next_of_the_path(
    postgresql_server: PostgresqlServer, tmp_path: Path, path: str
) -> None:
    with postgresql_server.without_tables() as url:
        theirs = f"{url}&search_path={path}"
        said = await _refusal(theirs, tmp_path)
        name = "Hooks" if "%22" in path else "hooks"
        assert f"search_path begins with the schema {name}, which" in said
        command = f'CREATE SCHEMA "{name}" AUTHORIZATION "postgres";'
        assert command in said
        _run(url, command)
        async with Database(theirs) as database:
            await prepare(Settings(home=tmp_path, database_url=theirs))
            assert await is_current(database)
        async with Database(url) as database:  # nothing went into `public`
            assert not await is_current(database)


@pytest.mark.parametrize("path", ["%22$user%22,public", "public", "public,nowhere"])
async def test_default_search_path_needs_no_schema_of_the_user(
    postgresql_url: str, path: str
) -> None:
    async with Database(f"{postgresql_url}&search_path={path}") as database:
        assert await _obstacles(database) == []


async def test_empty_search_path_is_refused(postgresql_url: str, tmp_path: Path) -> None:
    said = await _refusal(f"{postgresql_url}&options=-c%20search_path%3D", tmp_path)
    assert "The search_path of postgres is empty" in said


async def test_read_only_transactions_are_refused(postgresql_url: str, tmp_path: Path) -> None:
    said = await _refusal(f"{postgresql_url}&default_transaction_read_only=on", tmp_path)
    assert "Transactions are read-only by default" in said
    assert 'ALTER ROLE "postgres" SET default_transaction_read_only = off;' in said


def _facts(**changed: Any) -> Any:
    class Facts:
        version, version_number, encoding = "18.4", 180_004, "UTF8"
        read_only = standby = False
        role, database = "hook", "hookfast"

    for name, value in changed.items():
        setattr(Facts, name, value)
    return Facts


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, []),
        ({"version": "13.22", "version_number": 130_022}, ["PostgreSQL 13.22 is older"]),
        ({"version_number": 140_000}, []),
        ({"standby": True, "read_only": True}, ["the server is a standby"]),
        ({"encoding": "LATIN1", "standby": True}, ["LATIN1", "standby"]),
    ],
)
def test_obstacles_of_the_server_are_all_named(changed: dict[str, Any], words: list[str]) -> None:
    found = list(preconditions._of_server(_facts(**changed)))
    assert len(found) == len(words)
    assert all(word in one.saw for one, word in zip(found, words, strict=True))


async def test_usable_database_has_no_obstacle(blank_url: str, database: Database) -> None:
    assert await _obstacles(database) == []
    async with Database(blank_url) as blank:
        assert await _obstacles(blank) == []


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["CREATE TABLE events (id int)", "CREATE TABLE users (id int)"], ["events."]),
        (
            [
                "CREATE TABLE users (id int)",
                "CREATE TABLE alembic_version (version_num varchar(32))",
                "INSERT INTO alembic_version VALUES ('1975ea83b712')",
            ],
            ["alembic_version."],
        ),
        (["CREATE TABLE users (id int)"], []),
    ],
)
async def test_database_of_another_application_is_refused_and_not_changed(
    blank_url: str, tmp_path: Path, statements: list[str], found: list[str]
) -> None:
    async with Database(blank_url) as database:
        async with database.write() as connection:
            for statement in statements:
                await connection.execute(text(statement))
        seen = [one.saw for one in await _obstacles(database)]
    assert seen == [f"The database has tables of another application: {one}" for one in found]
    if found:
        assert "Create a database for Hookfast alone" in await _refusal(blank_url, tmp_path)


async def _obstacles(database: Database) -> list[Any]:
    async with database.read() as connection:
        return await find_obstacles(database, connection)


async def test_file_that_this_user_may_not_write_is_refused(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a test that runs as root may write everything
    monkeypatch.setattr(preconditions.os, "access", lambda path, _: path.is_dir())
    assert "this user may not write to it" in await _refusal(sqlite_url, tmp_path)
    monkeypatch.setattr(preconditions.os, "access", lambda path, _: not path.is_dir())
    assert "may not write to its folder" in await _refusal(sqlite_url, tmp_path)


async def test_path_that_is_not_a_file_is_rejected_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a file" in await _refusal(f"sqlite:///{tmp_path}/pipe", tmp_path)


async def test_old_sqlite_is_refused(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preconditions.sqlite3, "sqlite_version_info", (3, 37, 2))
    assert "older than Hookfast supports" in await _refusal(sqlite_url, tmp_path)


async def test_file_system_without_write_ahead_log_is_refused(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hookfast.storage.database.sqlite_connection._PRAGMAS", ("PRAGMA journal_mode=DELETE",)
    )
    said = await _refusal(sqlite_url, tmp_path)
    assert "The journal mode of" in said
    assert "Move HOOKFAST_HOME to a local disk" in said
