"""The doctor on databases that are unreachable, old, new, damaged or configured to lose events."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text

from hookfast.cli.prepare import prepare
from hookfast.clock import utc_now
from hookfast.doctor.finding import Finding
from hookfast.doctor.postgresql import _check_connections
from hookfast.doctor.workers import check_workers
from hookfast.errors import Misconfigured
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate, newest_revision
from hookfast.storage.figures import server_facts, workers
from hookfast.storage.figures.workers import Heartbeat
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import NOW, beat, installation, problems, run_check
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.anyio

# the tests' PostgreSQL does not wait for the disk, and their role is a superuser
_TEST_SERVER = {"fsync is off", "full_page_writes is off", "is a superuser"}


def _named(findings: list[Finding]) -> list[Finding]:
    """Return the findings without those about the tests' own PostgreSQL."""
    return [one for one in findings if not any(words in one.saw for words in _TEST_SERVER)]


def _driver_url(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://")


async def _sql(url: str, statement: str) -> None:
    async with Database(url) as database, database.write() as connection:
        await connection.execute(text(statement))


async def test_current_database_with_a_living_worker_is_ok(
    database: Database, tmp_path: Path
) -> None:
    async with database.write() as connection:
        await workers.record_heartbeat(connection, "one", version="0.1.0", now=utc_now())

    findings = _named(await run_check("database", installation(tmp_path, database.url)))

    assert problems(findings) == {}
    assert {one.check for one in findings} >= {"database", "database.schema", "workers"}


async def test_missing_worker_is_reported_with_the_time_of_the_last(
    database: Database, tmp_path: Path
) -> None:
    now = utc_now()
    async with database.write() as connection:
        await workers.record_heartbeat(
            connection, "one", version="0.1.0", now=now - timedelta(hours=2)
        )

    findings = await run_check("database", installation(tmp_path, database.url))
    status, said = problems(_named(findings))["workers"]

    assert status == "fail"
    assert f"{now - timedelta(hours=2):%Y-%m-%d %H:%M}" in said
    assert "hookfast worker" in said


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ("UPDATE alembic_version SET version_num = '0000'", "fail", "behind"),
        ("UPDATE alembic_version SET version_num = '9999'", "warn", "ahead"),
    ],
)
async def test_schema_that_is_behind_or_ahead_is_reported(
    database_url: str, tmp_path: Path, change: str, status: str, word: str
) -> None:
    await _sql(database_url, change)

    findings = await run_check("database", installation(tmp_path, database_url))
    found, said = problems(_named(findings))["database.schema"]

    assert (found, word in said) == (status, True)


async def test_database_without_tables_is_to_be_migrated(blank_url: str, tmp_path: Path) -> None:
    async with Database(blank_url):  # creates SQLite's file
        findings = await run_check("database", installation(tmp_path, blank_url))
    status, said = problems(_named(findings))["database.schema"]
    assert (status, said) == ("fail", "The database has no tables. Run `hookfast migrate`.")


async def test_migration_is_not_advised_where_it_would_fail(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    with postgresql_server.without_tables(encoding="LATIN1") as url:
        found = problems(_named(await run_check("database", installation(tmp_path, url))))
    assert "Hookfast needs UTF8" in found["database.requirements"][1]
    assert "hookfast migrate" not in str(found)


async def test_unfinished_migration_is_reported_with_both_revisions(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'old.db'}"
    async with Database(url) as database:
        await migrate(database)
        async with database.write() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))

    _, said = problems(await run_check("database", installation(tmp_path, url)))["database.schema"]

    assert "0000" in said
    assert newest_revision() in said
    assert "hookfast migrate" in said


async def test_doctor_creates_no_sqlite_file(tmp_path: Path) -> None:
    settings = installation(tmp_path / "home", None)

    found = problems(await run_check("database", settings))

    assert found["database"][0] == "fail"
    assert "hookfast migrate" in found["database"][1]
    assert not (tmp_path / "home").exists()


async def test_file_that_is_not_a_database_is_reported_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "hookfast.db").write_bytes(b"this was a database once" * 300)

    status, said = problems(await run_check("database", installation(tmp_path, None)))["database"]

    assert status == "fail"
    assert "not a database" in said
    assert "backup" in said


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("postgresql://hook:hunter2@127.0.0.1:{port}/hookfast", "cannot be reached"),
        ("postgresql://hook:hunter2@nowhere.invalid/hookfast", "cannot be reached"),
        ("postgresql://hook:p@ss/word@host:port/x", "cannot be read"),
        ("postgresql://hook:hunter2@db/hookfast?channel_binding=require", "`channel_binding`"),
        ("sqlite:///a?b.db", "write ? as %3F"),
        ("mysql://hook:hunter2@127.0.0.1/hookfast", "use postgresql"),
    ],
)
async def test_unreachable_postgresql_fails_and_shows_no_password(
    tmp_path: Path, url: str, word: str
) -> None:
    settings = installation(tmp_path, url.format(port=free_ports(1)[0]))

    findings = await run_check("database", settings)

    status, said = problems(findings)["database"]
    assert (status, word in said) == ("fail", True)
    assert "hunter2" not in str(findings)
    assert "p@ss" not in str(findings)


@pytest.mark.parametrize(
    ("part", "other", "word"),
    [
        ("/test_", "/nothing_", "no database nothing_"),
        ("://postgres:", "://nobody:", "denies access to the user nobody"),
    ],
)
async def test_a_wrong_database_or_user_is_named(
    postgresql_url: str, tmp_path: Path, part: str, other: str, word: str
) -> None:
    assert part in postgresql_url
    settings = installation(tmp_path, postgresql_url.replace(part, other))
    assert word in problems(await run_check("database", settings))["database"][1]


@pytest.mark.parametrize(
    ("setting", "status", "word"),
    [
        ("synchronous_commit = off", "warn", "acknowledged with 202"),
        ("default_transaction_isolation = serializable", "warn", "read committed"),
    ],
)
async def test_dangerous_postgresql_setting_is_named(
    postgresql_url: str, tmp_path: Path, setting: str, status: str, word: str
) -> None:
    name = postgresql_url.partition("?")[0].rpartition("/")[2]
    await _sql(postgresql_url, f"ALTER DATABASE {name} SET {setting}")

    found = _named(await run_check("database", installation(tmp_path, postgresql_url)))

    got, said = problems(found)["database.settings"]
    assert (got, word in said) == (status, True)


async def test_obstacle_is_named_as_the_start_names_it(postgresql_url: str, tmp_path: Path) -> None:
    settings = installation(tmp_path, f"{postgresql_url}&default_transaction_read_only=on")
    status, said = problems(_named(await run_check("database", settings)))["database.requirements"]
    with pytest.raises(Misconfigured) as refused:
        await prepare(settings)
    assert (status, said) == ("fail", refused.value.message)


async def test_pooler_before_the_server_is_a_warning(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = installation(tmp_path, postgresql_url)
    assert "database.pooler" not in problems(_named(await run_check("database", settings)))
    # a pooler gives its clients process ids of its own
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda _: 1)
    status, said = problems(_named(await run_check("database", settings)))["database.pooler"]
    assert (status, "session mode" in said) == ("warn", True)


async def test_postgresql_without_fsync_fails(postgresql_url: str, tmp_path: Path) -> None:
    findings = await run_check("database", installation(tmp_path, postgresql_url))
    said = {one.saw for one in findings if one.status == "fail"}
    assert any("fsync is off" in one for one in said)


async def test_too_few_connections_for_the_workers_that_were_seen(
    postgresql_url: str, tmp_path: Path
) -> None:
    async with Database(postgresql_url) as database, database.write() as connection:
        for number in range(40):  # more than the default max_connections is enough for
            await workers.record_heartbeat(connection, str(number), version="0.1.0", now=utc_now())

    findings = await run_check("database", installation(tmp_path, postgresql_url))
    status, said = problems(_named(findings))["database.connections"]

    assert status == "warn"
    assert "40 workers" in said


@pytest.fixture
def plain_url(postgresql_url: str) -> Iterator[str]:
    """The URL of the database for a role without privileges, as production has."""
    with psycopg.connect(_driver_url(postgresql_url), autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN")
        yield postgresql_url.replace("://postgres:", "://plain:")
        admin.execute("DROP ROLE plain")


async def test_connections_of_other_databases_and_people_are_counted_for_a_plain_role(
    postgresql_url: str, plain_url: str
) -> None:
    ours = _driver_url(postgresql_url)
    name = ours.partition("?")[0].rpartition("/")[2]
    async with Database(plain_url) as database, AsyncExitStack() as stack:
        async with database.read() as connection:
            before = await server_facts.postgresql_connections(connection)
        others = [ours.replace(f"/{name}", "/postgres"), ours]
        named = [f"{ours}&application_name=hookfast%20{pid}@host" for pid in (1, 2, 2)]
        for url in [*others, *named]:
            opened = await psycopg.AsyncConnection.connect(url)
            stack.push_async_callback(opened.close)
        async with database.read() as connection:
            after = await server_facts.postgresql_connections(connection)
    assert after.others["postgres"] == before.others.get("postgres", 0) + 1
    assert after.others[name] == before.others.get(name, 0) + 1
    assert (after.ours, after.processes) == (before.ours + 3, before.processes + 2)


async def test_own_sessions_are_counted_as_one_process(postgresql_url: str) -> None:
    async with Database(postgresql_url) as database, database.read() as connection:
        shown = await connection.scalar(text("SHOW application_name"))
        found = await server_facts.postgresql_connections(connection)
    assert shown == f"hookfast {os.getpid()}@{socket.gethostname()}"
    assert found.processes == 0, "the doctor itself does not count"


_FACTS = {"max_connections": "300", "superuser_reserved_connections": "3"}


def _connections(**given: Any) -> server_facts.Connections:
    values: dict[str, Any] = {
        "ours": 30,
        "processes": 4,
        "others": {},
        "database_limit": None,
        "role_limit": None,
    }
    return server_facts.Connections(**values | given)


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        # (300 - 3) / 21 = 14.1
        ({}, "ok", "room for 14 processes of Hookfast, of up to 21 connections each; 4 are conn"),
        ({}, "ok", "10 more fit"),
        # (297 - 210) / 21 = 4.1
        ({"others": {"temporal": 150, "x": 60}}, "ok", "use 210 now (temporal 150, x 60)"),
        ({"others": {"temporal": 150, "x": 60}}, "ok", "0 more fit"),
        # (297 - 220) / 21 = 3.7; 3 + 220 + 4 * 21 = 307
        ({"others": {"temporal": 220}}, "warn", "max_connections to 350 or more"),
        ({"others": {"temporal": 220}}, "warn", "Temporal server opens up to 120"),
        ({"role_limit": 50}, "warn", "The role has a CONNECTION LIMIT of 50. That is room for 2"),
        ({"database_limit": 290}, "ok", "The database has a CONNECTION LIMIT of 290"),
        ({"database_limit": 900}, "ok", "room for 14"),
    ],
)
def test_room_is_what_the_others_leave(given: Any, status: str, words: str) -> None:
    found = _check_connections(_FACTS, _connections(**given), workers_seen=2)
    assert (found.status, words in f"{found.saw} {found.todo}") == (status, True), found


async def test_counted_connections_are_those_the_engine_opens(postgresql_url: str) -> None:
    async with Database(postgresql_url) as database:
        listening = 1
        most = listening + sum(
            pool.size() + pool._max_overflow  # type: ignore[attr-defined]
            for pool in (database._writer.pool, database.background._writer.pool)
        )
    assert most == server_facts.CONNECTIONS_PER_PROCESS


@pytest.mark.parametrize(
    ("off_by", "status"), [(0, "ok"), (-5, "warn"), (5, "warn"), (-3600, "fail"), (3600, "fail")]
)
async def test_clock_that_differs_from_the_databases_is_reported(
    postgresql_url: str, tmp_path: Path, off_by: int, status: str
) -> None:
    async with Database(postgresql_url) as database, database.write() as connection:
        await workers.record_heartbeat(connection, "one", version="0.1.0", now=utc_now())
    findings = await run_check(
        "database",
        installation(tmp_path, postgresql_url),
        clock=lambda: utc_now() + timedelta(seconds=off_by),
    )
    (clock,) = [one for one in findings if one.check == "clock"]
    assert clock.status == status
    assert ("behind" if off_by > 0 else "ahead") in clock.saw or not off_by
    (alive,) = [one for one in findings if one.check == "workers"]
    assert alive.status == "ok"  # heartbeats are by the database's clock


@pytest.mark.parametrize(
    ("heartbeats", "status", "words"),
    [
        ([beat("a", started=90)], "ok", "1 alive, version 1."),
        # a rollout: those that left have no row
        ([beat("a", started=1), beat("b", started=2)], "ok", "2 alive"),
        ([beat("a", started=1, version="2"), beat("b", started=99)], "ok", "1 of version 2"),
        ([beat("a", started=61, version="2"), beat("b", started=99)], "warn", "different vers"),
        # killed and not replaced, for a day
        ([beat("a", started=90), beat("b", started=90, seen=1)], "warn", "1 fewer than before"),
        ([beat("a", started=90), beat("b", started=90, seen=1)], "warn", "7@b (seen at 2026-07-"),
        ([beat("a", started=900), beat("b", started=990, seen=800)], "warn", "1 fewer"),
        # killed and replaced, for an hour
        ([beat("a", started=30), beat("b", started=90, seen=31)], "warn", "was replaced"),
        ([beat("a", started=70), beat("b", started=90, seen=71)], "ok", "1 alive"),
        # one of two replaced
        (
            [
                beat("a", started=10),
                beat("b", started=90, seen=5),
                beat("c", started=90, seen=11),
            ],
            "warn",
            "1 fewer than before: 7@b",
        ),
    ],
)
def test_workers_that_ended_without_leaving_are_reported(
    heartbeats: list[Heartbeat], status: str, words: str
) -> None:
    (found,) = check_workers(heartbeats, NOW)
    assert (found.status, words in found.saw) == (status, True), found
    assert (found.todo is not None) == (status == "warn")


async def test_worker_whose_clock_is_ahead_is_reported(database: Database, tmp_path: Path) -> None:
    async with database.write() as connection:
        await workers.record_heartbeat(
            connection, "one", version="0.1.0", now=utc_now() + timedelta(seconds=40)
        )
    found = problems(_named(await run_check("database", installation(tmp_path, database.url))))
    assert "A worker's clock" in found["clock"][1]
