"""One API on each kind of database for all tests of this folder, which are many and short. Data is
not reset between them: a test here is rejected, only reads, or looks only at its own objects."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from hookfast.settings.settings import Settings
from tests.integration.api.shared.one_of_everything import one_of_everything
from tests.integration.api.shared.sources import make_source
from tests.support import shared_service
from tests.support.api_client import (
    Make,
    MakeEventType,
    development_settings,
    endpoint_maker,
    event_type_maker,
    maker,
)

sqlite_url, postgresql_url = shared_service.sqlite_url, shared_service.postgresql_url
database_url, app, context = shared_service.database_url, shared_service.app, shared_service.context
client, key_client = shared_service.client, shared_service.key_client


@pytest.fixture(scope="session")
def settings(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings without a limit of failed authentications, which test_throttling tests."""
    settings = development_settings(database_url, Path(tmp_path_factory.mktemp("home")))
    return settings.model_copy(update={"auth_failures_per_minute": 0})


@pytest.fixture(scope="session")
def make_tenant(client: httpx2.AsyncClient) -> Make:
    """`await make_tenant(name="Acme")` → the tenant."""
    return maker(client, "/tenants", name="Acme")


@pytest.fixture(scope="session")
def make_endpoint(client: httpx2.AsyncClient) -> Make:
    """`await make_endpoint(tenant_id=…, events=["order.**"])` → the endpoint, unverified."""
    return endpoint_maker(client)


@pytest.fixture(scope="session")
def make_event_type(client: httpx2.AsyncClient) -> MakeEventType:
    """`await make_event_type("order.invoice.paid", schema=…)` → the event type."""
    return event_type_maker(client)


@pytest.fixture(scope="session")
async def victim(client: httpx2.AsyncClient) -> dict[str, str]:
    """The ids of a tenant that has one object of each kind, by the names of path parameters."""
    return await one_of_everything(client)


@pytest.fixture(scope="session")
async def changing_victim(client: httpx2.AsyncClient) -> dict[str, str]:
    """The ids of another such tenant, whose objects tests may change but not delete."""
    return await one_of_everything(client)


@pytest.fixture(scope="session")
async def tenant(make_tenant: Make) -> str:
    """The id of a tenant with sources."""
    return str((await make_tenant())["id"])


@pytest.fixture(scope="session")
async def source(client: httpx2.AsyncClient, tenant: str) -> str:
    """A GitHub source that no test changes."""
    return str((await make_source(client, tenant))["id"])
