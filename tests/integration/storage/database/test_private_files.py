"""SQLite's files can be read only by the user who runs Hookfast."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_new_folder_and_files_are_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Database(f"sqlite+aiosqlite:///{home / 'hookfast.db'}") as database:
        await migrate(database)
        modes = {path.name: _mode(path) for path in home.iterdir()}
    assert _mode(home) == 0o700
    assert {"hookfast.db", "hookfast.db-wal", "hookfast.db-shm"} <= modes.keys()
    assert set(modes.values()) == {0o600}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database file that exists already."""
    tmp_path.chmod(0o750)
    file = tmp_path / "hookfast.db"
    file.touch(0o640)
    return file


async def test_existing_file_and_folder_keep_their_modes(file: Path) -> None:
    async with Database(f"sqlite+aiosqlite:///{file}") as database:
        await migrate(database)
    assert (_mode(file.parent), _mode(file)) == (0o750, 0o640)
