"""The number of series in `/metrics` does not grow by what callers invent."""

from __future__ import annotations

import asyncio
from itertools import product

import httpx2
import pytest
from fastapi import FastAPI

from api.access import request_metrics
from api.access.request_metrics import METHODS, OTHER, PAGES
from api.context.context import Context
from hookfast.telemetry import exposition, instruments, metric
from tests.support.api_client import Make, MakeEventType

pytestmark = pytest.mark.anyio

PAGE_PATHS = ("/", "/docs", "/docs/assets/x.js", "/dashboard/", "/dashboard/endpoints", "/portal/")
MAX_BYTES = 700_000
"""Of an API's `/metrics`, as docs/telemetry.md says."""


def series(context: Context) -> set[str]:
    """Return all series, with their labels."""
    lines = exposition.text(context.telemetry.registry).decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


def requests(context: Context) -> set[str]:
    return {line for line in series(context) if line.startswith("http_server_")}


async def send_all(app: FastAPI, calls: list[tuple[str, str]]) -> set[int]:
    """Send these requests without a key, and return the statuses of the answers."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client:
        room = asyncio.Semaphore(20)

        async def send(method: str, path: str) -> int:
            async with room:
                return (await client.request(method, path)).status_code

        return set(await asyncio.gather(*(send(*call) for call in calls)))


async def test_invented_requests_add_no_series(app: FastAPI, context: Context) -> None:
    """3,000 methods and paths: only the first of each kind may add something."""
    documented = list(app.openapi()["paths"])
    await send_all(app, list(product((*METHODS, "BREW"), ("/x", *PAGE_PATHS, "/in/src_x"))))
    before = requests(context)
    assert before
    statuses = await send_all(
        app,
        [
            *((f"M{n}", f"/{n}") for n in range(500)),
            *(("GET", f"/v1/{n}/{n}") for n in range(500)),
            *(("POST", f"/in/src_{n:026}") for n in range(500)),
            *(("GET", f"{page}{n}?{n}={n}") for n, page in product(range(100), PAGE_PATHS)),
            *product(METHODS - {"TRACE", "CONNECT"}, documented),
        ],
    )
    assert {401, 404, 405, 429} <= statuses
    assert requests(context) == before


async def test_routes_are_named_only_for_those_who_may_call_them(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    before = requests(context)
    await send_all(app, [("DELETE", "/v1/tenants/tnt_x"), ("POST", "/v1/jobs")])
    await client.get("/tenants/tnt_x")
    assert not [line for line in requests(context) - before if 'http_route="/v1/' in line]
    assert (await client.get("/tenants")).status_code == 200
    measured = {"GET", "/v1/tenants", "2xx"}
    assert [line for line in requests(context) if all(f'"{one}"' in line for one in measured)]


async def test_pages_and_static_files_share_one_route(app: FastAPI, context: Context) -> None:
    await send_all(app, [("GET", path) for path in PAGE_PATHS])
    routes = {line.partition('http_route="')[2].partition('"')[0] for line in requests(context)}
    assert {route for route in routes if not route.startswith(("/v1/", "/in/"))} <= {OTHER, PAGES}
    assert PAGES in routes


async def test_tenants_choices_add_no_series(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
) -> None:
    async def choose(number: int) -> None:
        tenant = (await make_tenant(name=f"Tenant {number}"))["id"]
        event_type = f"chosen.name{number}.made"
        await make_event_type(event_type)
        await make_endpoint(
            tenant_id=tenant, events=[event_type], url=f"http://127.0.0.1:{4000 + number}/{number}"
        )
        event = {"type": event_type, "tenant_id": tenant, "data": {str(number): number}}
        assert (await client.post("/events", json=event)).status_code == 202
        await client.get(f"/events?type={event_type}&tenant_id={tenant}")
        source = {"tenant_id": tenant, "name": str(number), "provider": "github"}
        await client.post("/sources", json=source)
        await client.post("/sources", json=source | {"provider": f"invented{number}"})

    await choose(0)
    before = series(context)
    for number in range(1, 20):
        await choose(number)
    assert series(context) == before


async def test_page_of_all_series_has_a_bounded_size(app: FastAPI, context: Context) -> None:
    """The largest that callers with every right can make it, with counts of many digits."""
    api = [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
        if path.startswith(("/v1/", "/in/"))
    ]
    others = list(product((*METHODS, OTHER), (PAGES, OTHER)))
    for (method, route), status in product((*api, *others), (200, 300, 400, 500, None)):
        if route in (PAGES, OTHER) or status != 300:  # the API redirects nobody
            labels = {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_class": instruments.status_class(status),
            }
            instruments.HTTP_REQUESTS.record(123_456.789, **labels)
    size = len(exposition.text(context.telemetry.registry))
    assert 100_000 < size < MAX_BYTES


@pytest.mark.parametrize("status", [401, 403, 404, 405, 400, 501])
async def test_request_without_a_route_of_its_own_has_the_label_of_others(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[dict[str, str]] = []
    monkeypatch.setattr(
        instruments.HTTP_REQUESTS, "record", lambda _, **labels: recorded.append(labels)
    )
    scope = {"type": "http", "state": {}, "method": "brew", "path": "/x"}
    request_metrics.measure(scope, status, 0.1)
    [labels] = recorded
    assert (labels["http.request.method"], labels["http.route"]) == (OTHER, OTHER)


async def test_labels_beyond_the_limit_are_counted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metric, "MAX_SERIES", 3)
    monkeypatch.setattr(metric, "CATALOGUE", {})
    count = metric.Counter("hookfast.tests.overflow", "1", "Of a test.", labels=("one",))
    for number in range(10):
        count.add(one=str(number))
        count.add(one="0")
    assert [count.total(one=str(number)) for number in (0, 2, 3)] == [11, 1, 0]
    assert count.total(**{"otel.metric.overflow": "true"}) == 7
