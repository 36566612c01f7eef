"""Fixtures for databases that several tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.postgresql import PostgresqlServer


def url_fixtures(scope: Literal["module", "session"]) -> tuple[Any, Any, Any]:
    """Return the fixtures `sqlite_url`, `postgresql_url` and `database_url`, each with the URL of a
    migrated database that is empty at first. With the third, tests run once on each kind."""

    @pytest.fixture(scope=scope)
    def sqlite_url(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
        path = tmp_path_factory.mktemp("shared") / "hookfast.db"
        shutil.copyfile(sqlite_template, path)
        return f"sqlite+aiosqlite:///{path}"

    @pytest.fixture(scope=scope)
    def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
        with postgresql_server.borrowed() as url:
            yield url

    @pytest.fixture(scope=scope, params=["sqlite", "postgresql"])
    def database_url(request: pytest.FixtureRequest) -> str:
        url = request.getfixturevalue(f"{request.param}_url")
        assert isinstance(url, str)
        return url

    return sqlite_url, postgresql_url, database_url
