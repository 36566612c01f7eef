"""One worker and one database for all tests of a module, which are many and short.

Each test has its own receiver, tenants and endpoints, and looks only at those. When it ends, its
endpoints are disabled, so that nothing of it is sent during the next one. Tests that need other
settings, count rows, or stop a worker are in the folder above.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest
from pydantic import SecretStr
from sqlalchemy import select, update
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.conftest import Stack, running_stack, settings_for
from tests.integration.delivery.platform import Platform, running_api, tenant_of
from tests.support.api_client import OPERATOR_KEY
from tests.support.receiver import Receiver
from tests.support.shared_databases import url_fixtures

sqlite_url, postgresql_url, database_url = url_fixtures("module")


@pytest.fixture(scope="module")
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url) as database:
        yield database


@pytest.fixture(scope="module")
def first_attempts() -> str:
    """Whether first attempts run in workflows or batches; tests parametrize this fixture."""
    return "workflow"


@pytest.fixture(scope="module")
def settings(
    tmp_path_factory: pytest.TempPathFactory, database_url: str, first_attempts: str
) -> Settings:
    settings = settings_for(tmp_path_factory.mktemp("home"), database_url, first_attempts)
    return settings.model_copy(update={"operator_key": SecretStr(OPERATOR_KEY)})


@pytest.fixture(scope="module")
async def shared_stack(
    temporal: WorkflowEnvironment, settings: Settings, database: Database
) -> AsyncIterator[Stack]:
    async with (
        Receiver() as unused,
        running_stack(temporal, settings, database, unused) as stack,
    ):
        yield stack


@pytest.fixture
async def stack(shared_stack: Stack, receiver: Receiver) -> AsyncIterator[Stack]:
    """The module's worker, with a receiver of the test."""
    yield replace(shared_stack, receiver=receiver)
    c = Endpoint.__table__.c
    async with shared_stack.database.read() as connection:
        enabled = await connection.execute(select(c.id).where(c.state != "disabled"))
        left = list(enabled.scalars())
    for endpoint in left:  # one by one: a worker that locks several cannot meet a deadlock
        async with shared_stack.database.write() as connection:
            await connection.execute(
                update(Endpoint.__table__)
                .where(c.id == endpoint)
                .values(state="disabled", updated_at=utc_now())
            )


@pytest.fixture(scope="module")
async def client(shared_stack: Stack, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """An operator's client of the module's API, which runs beside the worker."""
    async with running_api(settings) as client:
        yield client


@pytest.fixture
async def platform(client: httpx2.AsyncClient, stack: Stack) -> Platform:
    """The module's API, with a tenant of the test."""
    return Platform(client, stack.receiver, await tenant_of(client))
