"""The application and the rows of the dashboard's tests: see its `conftest`."""

from tests.integration.dashboard import conftest as dashboard
from tests.support import shared_service

sqlite_url, postgresql_url = shared_service.sqlite_url, shared_service.postgresql_url
database_url, app, context = shared_service.database_url, shared_service.app, shared_service.context
client, key_client = shared_service.client, shared_service.key_client
compiled_templates = shared_service.compiled_templates
settings, owned, shop = dashboard.settings, dashboard.owned, dashboard.shop
operator = dashboard.operator
