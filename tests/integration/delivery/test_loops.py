"""Services whose endpoints are each other's sources, or their own: the loop ends by itself."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from temporalio.testing import WorkflowEnvironment

from hookfast.events.operational import SYSTEM_TENANT, Kind
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.integration.delivery.conftest import SANDBOX
from tests.support.api_client import OPERATOR_KEY, Json
from tests.support.api_server import api_server
from tests.support.forwarding_host import forwarding_host
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE, eventually
from worker import running_worker

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

EVENT_TYPE = "order.invoice.paid"
ENDED = {"delivered", "dead", "gone", "cancelled"}


@dataclass(frozen=True)
class Service:
    """An API and a worker with a database of their own, and one tenant."""

    url: str
    client: httpx2.AsyncClient
    tenant: str

    async def endpoint(self, *patterns: str, tenant: str | None = None) -> Json:
        """Create an endpoint, whose URL is set later: the source there needs its secret."""
        return await create(
            self.client,
            "/endpoints",
            tenant_id=tenant or self.tenant,
            url="http://127.0.0.1:4/",
            verification="none",
            events=patterns,
        )

    async def point(self, endpoint: Json, url: str) -> None:
        answer = await self.client.patch(f"/endpoints/{endpoint['id']}", json={"url": url})
        assert answer.status_code == 200, answer.text

    async def source(self, *senders: Json) -> str:
        """Create a source for these endpoints, of any service; return its id."""
        secrets = [endpoint["secret"] for endpoint in senders]
        form = {"tenant_id": self.tenant, "name": "x", "provider": "hook", "secrets": secrets}
        source = await create(self.client, "/sources", **form)
        return str(source["id"])

    async def emit(self) -> None:
        assert (await self.client.put(f"/event-types/{EVENT_TYPE}", json={})).is_success
        event = {"type": EVENT_TYPE, "tenant_id": self.tenant, "data": {}}
        assert (await self.client.post("/events", json=event)).status_code == 202

    async def listed(self, path: str, **params: Any) -> list[Json]:
        """Return all of a short list, oldest first."""
        answer = await self.client.get(path, params={"limit": 200} | params)
        rows: list[Json] = answer.json()["data"]
        return rows[::-1]

    async def until_ended(self, count: int) -> list[Json]:
        """Wait until there are so many deliveries and all have ended; return them."""

        async def ended() -> list[Json] | None:
            rows = await self.listed("/deliveries")
            return rows if len(rows) >= count and {row["status"] for row in rows} <= ENDED else None

        return await eventually(ended)


async def create(client: httpx2.AsyncClient, path: str, **form: Any) -> Json:
    answer = await client.post(path, json=form)
    assert answer.status_code == 201, answer.text
    document: Json = answer.json()
    return document


@asynccontextmanager
async def running_service(
    environment: WorkflowEnvironment, settings: Settings, database_url: str
) -> AsyncIterator[Service]:
    settings = settings.model_copy(
        update={
            "database_url": SecretStr(database_url),
            "operator_key": SecretStr(OPERATOR_KEY),
        }
    )
    async with (
        Database(database_url) as database,
        running_worker(settings, environment.client, database, workflow_runner=SANDBOX),
        api_server(settings) as server,
        httpx2.AsyncClient(
            base_url=f"{server.url}/v1",
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            timeout=PATIENCE,
        ) as client,
    ):
        tenant = await create(client, "/tenants", name="Acme")
        yield Service(server.url, client, tenant["id"])


@pytest.fixture
async def service(
    temporal: WorkflowEnvironment, settings: Settings, database_url: str
) -> AsyncIterator[Service]:
    async with running_service(temporal, settings, database_url) as service:
        yield service


@pytest.fixture
async def other(
    settings: Settings, sqlite_template: Path, tmp_path: Path
) -> AsyncIterator[Service]:
    shutil.copyfile(sqlite_template, tmp_path / "other.db")
    url = f"sqlite+aiosqlite:///{tmp_path / 'other.db'}"
    async with temporal_server() as temporal, running_service(temporal, settings, url) as service:
        yield service


def results(deliveries: list[Json]) -> Counter[tuple[str, str | None]]:
    return Counter((row["status"], row["reason"]) for row in deliveries)


async def hops(service: Service, **params: Any) -> list[int]:
    return [entry["hops"] for entry in await service.listed("/inbox", **params)]


async def test_loop_of_two_services_ends_with_an_operational_event(
    service: Service, other: Service
) -> None:
    there, back = await service.endpoint("order.**"), await other.endpoint("order.**")
    source = await service.source(back)
    await service.point(there, f"{other.url}/in/{await other.source(there)}")
    await other.point(back, f"{service.url}/in/{source}")
    await service.emit()

    assert results(await service.until_ended(3)) == {("delivered", None): 3}
    ended = await other.until_ended(3)
    assert results(ended) == {("delivered", None): 2, ("dead", "loop_detected"): 1}
    assert ended[-1]["attempt_count"] == 1  # it is not retried
    assert (await hops(service), await hops(other)) == ([2, 4], [1, 3, 5])
    [event] = await service.listed("/events", type=Kind.LOOP_DETECTED.value)
    about = (await service.client.get(f"/events/{event['id']}")).json()["data"]
    assert (about["source_id"], about["tenant_id"]) == (source, service.tenant)
    endpoint = (await other.client.get(f"/endpoints/{back['id']}")).json()
    assert endpoint["state"] == "enabled"


async def test_loop_through_another_host_ends_even_if_it_takes_its_own_reports_along(
    service: Service,
) -> None:
    async with forwarding_host(service.url) as host:
        endpoint = await service.endpoint("**")
        monitor = await service.endpoint("hookfast.**", tenant=SYSTEM_TENANT)
        source = await service.source(endpoint, monitor)
        for one in (endpoint, monitor):
            await service.point(one, f"{host}/in/{source}")
        await service.emit()
        deliveries = await service.until_ended(10)

    # Five times round. The report passes the source once, and then it is too much too. The two
    # dead letters are reported with the hops of their events, and go no further.
    assert await hops(service, event_type=EVENT_TYPE) == [1, 2, 3, 4, 5]
    assert await hops(service, event_type="hook.hookfast_source.loop_detected") == [5]
    assert len(await hops(service)) == 6
    assert results([row for row in deliveries if row["endpoint_id"] == endpoint["id"]]) == {
        ("delivered", None): 5,
        ("dead", "loop_detected"): 2,
    }
    assert results([row for row in deliveries if row["endpoint_id"] == monitor["id"]]) == {
        ("delivered", None): 1,
        ("dead", "loop_detected"): 2,
    }
    reports = Counter([event["type"] for event in await service.listed("/events")])
    assert reports[Kind.LOOP_DETECTED] == 1
    assert reports[Kind.DELIVERY_DEAD] == 2
    assert reports[Kind.CIRCUIT_OPENED] == 0
