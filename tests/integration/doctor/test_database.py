"""The doctor on databases that are unreachable, old, new, damaged or configured to lose events."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from hookfast.clock import utc_now
from hookfast.doctor.finding import Finding
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate, newest_revision
from hookfast.storage.figures import server_facts, workers
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import installation, problems, run_check

pytestmark = pytest.mark.anyio

# the tests' PostgreSQL does not wait for the disk, and their role is a superuser
_TEST_SERVER = {"fsync is off", "full_page_writes is off", "is a superuser"}


def _named(findings: list[Finding]) -> list[Finding]:
    """Return the findings without those about the tests' own PostgreSQL."""
    return [one for one in findings if not any(words in one.saw for words in _TEST_SERVER)]


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
        ("DROP TABLE alembic_version", "fail", "no tables"),
        ("UPDATE alembic_version SET version_num = '0000'", "fail", "behind"),
        ("UPDATE alembic_version SET version_num = '9999'", "warn", "ahead"),
    ],
)
async def test_schema_that_is_missing_behind_or_ahead_is_reported(
    database_url: str, tmp_path: Path, change: str, status: str, word: str
) -> None:
    await _sql(database_url, change)

    findings = await run_check("database", installation(tmp_path, database_url))
    found, said = problems(_named(findings))["database.schema"]

    assert (found, word in said) == (status, True)


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
        ("default_transaction_read_only = on", "fail", "primary"),
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


async def test_worker_whose_clock_is_ahead_is_reported(database: Database, tmp_path: Path) -> None:
    async with database.write() as connection:
        await workers.record_heartbeat(
            connection, "one", version="0.1.0", now=utc_now() + timedelta(seconds=40)
        )
    found = problems(_named(await run_check("database", installation(tmp_path, database.url))))
    assert "A worker's clock" in found["clock"][1]
