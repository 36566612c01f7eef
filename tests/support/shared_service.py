"""Fixtures for folders of many short tests that share one application per kind of database.

The application keeps the rows that tests create, so a test only reads, has its input rejected, or
checks only objects that it created itself. A folder's conftest.py imports these fixtures and
defines `settings`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from jinja2 import FileSystemBytecodeCache

from api.context.context import Context
from api.dashboard.site import DASHBOARD
from api.portal.site import PORTAL
from api.site.page import templates
from hookfast.settings.settings import Settings
from tests.support.api_client import (
    OPERATOR_KEY,
    KeyClient,
    client_with,
    key_client_maker,
    running_app,
)
from tests.support.shared_databases import url_fixtures

sqlite_url, postgresql_url, database_url = url_fixtures("session")


@pytest.fixture(scope="session", autouse=True)
def compiled_templates(common_folder: Path) -> None:
    """Compiling all templates takes a second: let the first test process do it for all others."""
    folder = common_folder / "templates"
    folder.mkdir(exist_ok=True)
    for site in (DASHBOARD, PORTAL):
        templates(site.templates).bytecode_cache = FileSystemBytecodeCache(str(folder))


@pytest.fixture(scope="session")
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application, started, with its operator key. It never reaches a Temporal server: port 9
    (discard) is closed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
        async with running_app(settings) as app:
            yield app


@pytest.fixture(scope="session")
def context(app: FastAPI) -> Context:
    """The application's context, to read what the API does not show."""
    return app.state.context


@pytest.fixture(scope="session")
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the operator key; paths are relative to `/v1`."""
    async with client_with(app, OPERATOR_KEY) as client:
        yield client


@pytest.fixture(scope="session")
def key_client(app: FastAPI, client: httpx2.AsyncClient) -> KeyClient:
    """A function that opens clients with new API keys."""
    return key_client_maker(app, client)
