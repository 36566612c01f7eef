"""Starting without a usable database or home: a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from hookfast.cli.database import check_database, open_database
from hookfast.cli.prepare import prepare
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.supervisor import home_lock
from tests.e2e.service_process import environment
from tests.support.forked_command import run_forked
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.anyio

NOWHERE = "postgresql://x:s3cret@127.0.0.1:1/db"


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A home that cannot be created, because a file has its name."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "home"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (NOWHERE, "PostgreSQL at 127.0.0.1:1 cannot be reached"),
        ("postgresql://x:s3cret@127.0.0.1:port/db", "HOOKFAST_DATABASE_URL cannot be read"),
        ("postgresql://x:p@s3cret@127.0.0.1:1/db", "HOOKFAST_DATABASE_URL cannot be read"),
        ("postgresql://x:s3cret@db..example/db", "HOOKFAST_DATABASE_URL cannot be read"),
        ("s3cret", "HOOKFAST_DATABASE_URL cannot be read"),
        ("postgresql://x:s3cret@127.0.0.1:1/db?pgbouncer=true", "HOOKFAST_DATABASE_URL has `pgb"),
        ("postgresql://x:s3cret@nowhere.invalid/db", "the name of its host is unknown"),
        ("sqlite:///{folder}", "cannot be used"),
        ("sqlite:///hf.db?s3cret=1", "HOOKFAST_DATABASE_URL cannot be read: a SQLite file has no"),
        ("sqlite:///{folder}/file/hookfast.db", "cannot be used: "),
    ],
)
async def test_missing_database_is_reported_in_a_sentence(
    blocked: Path, url: str, words: str
) -> None:
    folder = blocked.parent.parent
    settings = Settings(home=folder, database_url=url.format(folder=folder))
    for start in (prepare, check_database):
        with pytest.raises(Misconfigured) as caught:
            await start(settings)
        assert words in caught.value.message
        assert "s3cret" not in caught.value.message


async def test_home_that_cannot_be_created_is_reported_in_a_sentence(blocked: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be used: Not a directory"):
        await check_database(Settings(home=blocked))
    with pytest.raises(Misconfigured, match=r"HOOKFAST_HOME, .* cannot be created"):
        home_lock.locked(blocked).__enter__()


async def test_migrate_prints_one_line_for_what_the_operator_can_cure(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    with postgresql_server.without_tables(encoding="WIN1252") as url:
        env = environment() | {"HOOKFAST_HOME": str(tmp_path), "HOOKFAST_DATABASE_URL": url}
        code, out, err = await run_forked(("migrate",), folder=tmp_path, env=env, stdin=b"")
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert "has the encoding WIN1252; Hookfast needs UTF8" in line


async def test_error_of_a_statement_that_is_for_the_operator_to_cure_is_a_sentence(
    database_url: str, tmp_path: Path
) -> None:
    """Other errors of statements are our bugs, and end in a traceback."""
    settings = Settings(home=tmp_path, database_url=database_url)
    revoked = "PRAGMA query_only = ON"
    if database_url.startswith("postgresql"):
        revoked = "SET ROLE pg_monitor"
    with pytest.raises(Misconfigured, match=r"does not let the user|cannot be used: attempt to"):
        await _execute(settings, revoked, "CREATE TABLE public_things (id int)")
    with pytest.raises(DBAPIError, match=r"(?i)syntax"):
        await _execute(settings, "CREATE TALBE x")


async def _execute(settings: Settings, *statements: str) -> None:
    async with open_database(settings) as database, database.write() as connection:
        for statement in statements:
            await connection.execute(text(statement))


@pytest.mark.parametrize(
    "command",
    [
        ["worker"],
        ["secrets", "rekey"],
        # these two import the whole API, then call `prepare`, which the first test calls
        pytest.param(["api"], marks=pytest.mark.slow),
        pytest.param(["migrate"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
async def test_every_command_reports_an_unreachable_database(
    command: list[str], tmp_path: Path
) -> None:
    env = environment() | {"HOOKFAST_HOME": str(tmp_path), "HOOKFAST_DATABASE_URL": NOWHERE}
    code, _, err = await run_forked(tuple(command), folder=tmp_path, env=env, stdin=b"")
    assert code == 1
    assert "PostgreSQL at 127.0.0.1:1 cannot be reached" in err
    assert "Traceback" not in err
    assert "s3cret" not in err
