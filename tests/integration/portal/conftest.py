"""The application and the rows of the dashboard's tests: see its `conftest`."""

import httpx2
import pytest
from fastapi import FastAPI

from tests.integration.dashboard import conftest as dashboard
from tests.integration.dashboard.resources import new_tenant
from tests.integration.portal.links import Portal
from tests.support import shared_service

sqlite_url, postgresql_url = shared_service.sqlite_url, shared_service.postgresql_url
database_url, app, context = shared_service.database_url, shared_service.app, shared_service.context
client, key_client = shared_service.client, shared_service.key_client
compiled_templates = shared_service.compiled_templates
settings, owned, shop = dashboard.settings, dashboard.owned, dashboard.shop
operator = dashboard.operator


@pytest.fixture
async def portal(app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]) -> Portal:
    return Portal(app, client, shop, await new_tenant(client))
