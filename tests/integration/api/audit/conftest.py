"""A tenant that has one object of each kind, and Temporal for the operations that need it. Every
test starts with a copy of a database that has this tenant."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from temporalio.testing import WorkflowEnvironment

from api.context.context import Context
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.integration.api.audit.scenes import EVENT_TYPE, needs_temporal
from tests.integration.api.shared.operations import Operation
from tests.support.api_client import (
    OPERATOR_KEY,
    client_with,
    development_settings,
    endpoint_maker,
    event_type_maker,
    maker,
    running_app,
)
from tests.support.postgresql import PostgresqlServer
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.temporal_server import temporal_server


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server, shared by the tests of one process."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture(autouse=True)
def temporal_address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of Temporal: port 9 (discard), so that it is away, unless a scene needs it."""
    address = "127.0.0.1:9"
    callspec = getattr(request.node, "callspec", None)
    operation = None if callspec is None else callspec.params.get("operation")
    if isinstance(operation, Operation) and needs_temporal(operation):
        environment: WorkflowEnvironment = request.getfixturevalue("temporal")
        address = environment.client.service_client.config.target_host
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)


class Filled:
    """A tenant that has one object of each kind, in databases to copy. `ids` are those of its
    objects, by the kind of database and the names of path parameters."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.ids: dict[str, dict[str, str]] = {}

    def settings(self, url: str) -> Settings:
        """Return settings for a copy. Its secrets are sealed with the key in this home folder."""
        return development_settings(url, self._home)

    async def fill(self, database: Database) -> None:
        """Create the tenant and its objects."""
        async with (
            running_app(self.settings(database.url)) as app,
            client_with(app, OPERATOR_KEY) as client,
        ):
            self.ids[database.kind] = await one_of_each_kind(app.state.context, client)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The tenant of this process's databases."""
    return Filled(tmp_path_factory.mktemp("audited"))


@pytest.fixture(scope="session")
def sqlite_template(
    filled: Filled, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A SQLite file with the tenant, to copy."""
    path = tmp_path_factory.mktemp("audited") / "template.db"
    shutil.copyfile(sqlite_template, path)
    asyncio.run(_fill(filled, f"sqlite+aiosqlite:///{path}"))
    return path


async def _fill(filled: Filled, url: str) -> None:
    async with Database(url) as database:
        await filled.fill(database)


@pytest.fixture
def postgresql_url(filled: Filled, postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The URL of a PostgreSQL database with the tenant."""
    postgresql_server.add_template("audited", filled.fill, base="migrated")
    with postgresql_server.borrowed("audited") as url:
        yield url


@pytest.fixture
def settings(filled: Filled, database_url: str) -> Settings:
    """The settings of the application that created the tenant."""
    return filled.settings(database_url)


@pytest.fixture
def things(filled: Filled, context: Context) -> dict[str, str]:
    """The ids of the tenant's objects, by the names of path parameters."""
    return filled.ids[context.database.kind]


async def one_of_each_kind(context: Context, client: httpx2.AsyncClient) -> dict[str, str]:
    """Create a tenant and one object of each kind, and return their ids."""
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await maker(client, "/tenants")(name="Acme")
    endpoint = await endpoint_maker(client)(tenant_id=tenant["id"], events=["**"])
    key = await client.post(f"/tenants/{tenant['id']}/api-keys", json={"name": "theirs"})
    form = {"tenant_id": tenant["id"], "type": EVENT_TYPE, "data": {}}
    event = (await client.post("/events", json=form)).json()
    delivery = (await client.get(f"/events/{event['id']}/deliveries")).json()["data"][0]
    job = await client.post(f"/events/{event['id']}/replay", json={})
    assert job.status_code == 202, job.text
    source = await seed_source(context.database, tenant["id"], keyring=context.keyring)
    return {
        "name": EVENT_TYPE,
        "tenant_id": tenant["id"],
        "endpoint_id": endpoint["id"],
        "subscription_id": endpoint["subscription"]["id"],
        "key_id": key.json()["id"],
        "event_id": event["id"],
        "delivery_id": delivery["id"],
        "job_id": job.json()["id"],
        "source_id": source,
        "inbox_id": await seed_entry(context.database, source, tenant["id"]),
    }
