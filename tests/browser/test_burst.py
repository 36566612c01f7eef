"""After a burst with failures, every figure that a page or an answer shows equals a count of rows:
on the real service, in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import pytest
from playwright.async_api import Page, async_playwright
from sqlalchemy import func, select

from api.site.attempt_chart import classified, legend_of
from api.site.formatting import number, percent
from bench import recount
from hookfast.clock import rfc3339, utc_now
from hookfast.deliveries.figures import answer_of
from hookfast.deliveries.outcome import Result
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery
from tests.e2e.service_process import NO_TLS
from tests.e2e.tour import KEY, service, tour_ports
from tests.integration.dashboard.test_figures import Rows, bars, check_list, check_overview
from tests.integration.dashboard.visitor import text_of
from tests.support.api_client import Json
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, eventually

# `make test` has integration/dashboard/test_figures.py: the same checks of pages, over stored rows
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_STAYS_CLOSED: Final = {"failure_threshold": 1_000}
_PROBED_LATER: Final = {"probe_delays_seconds": [3_600]}
"""Not while pages are compared with rows: a probe is an attempt."""
_HOURLY: Final = {"delays_seconds": [3_600], "jitter": 0}
_ONCE_MORE: Final = {"delays_seconds": [1], "jitter": 0}
ENDPOINTS: Final[dict[str, tuple[int, str, dict[str, Any]]]] = {
    "fine": (46, "/ok", {}),
    "failing": (15, "/status/503", {"retry_plan": _ONCE_MORE, "circuit": _STAYS_CLOSED}),
    "gone": (6, "/status/410", {}),
    "silent": (
        3,
        "/slow/30",
        {"retry_plan": _ONCE_MORE, "timeout_seconds": 1, "circuit": _PROBED_LATER},
    ),
    "later": (10, "/status/404", {"retry_plan": _HOURLY, "circuit": _STAYS_CLOSED}),
    "held": (
        12,
        "/status/500",
        {
            "retry_plan": _HOURLY,
            "circuit": {"failure_threshold": 3, "min_span_seconds": 0, **_PROBED_LATER},
        },
    ),
    "in order": (8, "/status/429", {"retry_plan": _HOURLY, "ordered": True}),
}
"""Each endpoint's share of the events, what its receiver answers, and its settings."""


@dataclass(frozen=True, slots=True)
class Shop:
    """A running service with a burst behind it. `endpoints` are ids, by name."""

    client: httpx2.AsyncClient
    database: Database
    tenant_id: str
    endpoints: dict[str, str]

    async def get(self, path: str, **params: Any) -> Json:
        answer = await self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def ids(self, name: str, status: str, *, limit: int) -> list[str]:
        query = {"endpoint_id": self.endpoints[name], "status": status, "limit": limit}
        return [row["id"] for row in (await self.get("/deliveries", **query))["data"]]


@asynccontextmanager
async def shop(folder: Path, database_url: str, receiver: Receiver) -> AsyncIterator[Shop]:
    """Run the service with a tenant and its endpoints."""
    ports = tour_ports()
    origin = f"http://127.0.0.1:{ports['8080']}"
    with service(folder, ports, HOOKFAST_DATABASE_URL=database_url, HOOKFAST_ALLOW_UNVERIFIED="1"):
        async with (
            httpx2.AsyncClient(
                base_url=f"{origin}/v1",
                headers={"Authorization": f"Bearer {KEY}"},
                timeout=PATIENCE,
                trust_env=False,
                verify=NO_TLS,
            ) as client,
            Database(database_url) as database,
        ):
            tenant_id = await created(client, "/tenants", name="Corner Shop")
            endpoints = {}
            for name, (_, path, options) in ENDPOINTS.items():
                event_type = type_of(name)
                await client.put(f"/event-types/{event_type}", json={})
                endpoints[name] = await created(
                    client,
                    "/endpoints",
                    tenant_id=tenant_id,
                    url=receiver.url(path),
                    events=[event_type],
                    verification="none",
                    **options,
                )
            yield Shop(client, database, tenant_id, endpoints)


async def created(client: httpx2.AsyncClient, path: str, **form: Any) -> str:
    answer = await client.post(path, json=form)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def type_of(name: str) -> str:
    return f"shop.{name.replace(' ', '_')}.sent"


async def burst(shop: Shop, count: int) -> None:
    """Emit this many events, and wait until nothing more is due soon."""
    shares = chain.from_iterable([name] * share for name, (share, *_) in ENDPOINTS.items())
    names = (list(shares) * (count // 100 + 1))[:count]
    events = [
        {"type": type_of(name), "tenant_id": shop.tenant_id, "data": {"number": place}}
        for place, name in enumerate(names)
    ]
    await emit(shop, events[:100])
    await eventually(lambda: is_open(shop, "held"))
    await emit(shop, events[100:])
    await eventually(lambda: is_quiet(shop.database), timeout=PATIENCE + count / 5)
    [first, second] = await shop.ids("later", "retrying", limit=2)
    wishes = {first: "pause", second: "cancel"}
    wishes |= dict.fromkeys(await shop.ids("failing", "dead", limit=3), "resend")
    for delivery, wish in wishes.items():
        answer = await shop.client.post(f"/deliveries/{delivery}/{wish}")
        assert answer.status_code == 202, answer.text
    await eventually(lambda: is_quiet(shop.database))


async def emit(shop: Shop, events: list[Json]) -> None:
    for start in range(0, len(events), 500):
        answer = await shop.client.post("/events/batch", json={"events": events[start:][:500]})
        assert answer.status_code == 202, answer.text


async def is_open(shop: Shop, name: str) -> bool:
    health = await shop.get(f"/endpoints/{shop.endpoints[name]}/health")
    return bool(health["circuit"]["state"] == "open")


async def is_quiet(database: Database) -> bool:
    c = Delivery.__table__.c
    async with database.read() as connection:
        busy = await connection.scalar(
            select(func.count()).where(
                (c.next_attempt_at < utc_now() + timedelta(minutes=10)) | c.started_at.is_(None)
            )
        )
    return busy == 0


class Browser:
    """A page of a signed-in browser, which returns what it shows."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def get(self, path: str) -> Any:
        answer = await self._page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        return SimpleNamespace(text=await self._page.content())


@asynccontextmanager
async def browser(path: str, origin: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--renderer-process-limit=1"]
        chromium = await playwright.chromium.launch(executable_path=path, args=options)
        page = await chromium.new_page(base_url=origin)
        form = await (await page.request.get("/dashboard/sign-in")).text()
        csrf = re.findall(r'name="csrf" value="(\w+)"', form)[0]
        answer = await page.request.post(
            "/dashboard/sign-in", form={"csrf": csrf, "key": KEY}, max_redirects=0
        )
        assert answer.status == 303
        yield Browser(page)
        await chromium.close()


def attempts_of(rows: Rows, since: datetime, until: datetime, endpoint_id: str) -> Counter[str]:
    """Count the attempts that began in this time, by their answers."""
    return Counter(
        answer_of(Result(row.result), row.status_code)
        for row in rows.attempts
        if row.endpoint_id == endpoint_id and since <= row.started_at < until
    )


async def check_endpoint(browser: Browser, shop: Shop, rows: Rows, name: str, window: str) -> None:
    """Compare the page of an endpoint."""
    id_ = shop.endpoints[name]
    page = (await browser.get(f"/dashboard/endpoints/{id_}?window={window}")).text
    text = text_of(page)
    statuses = Counter(row.status for row in rows.deliveries if row.endpoint_id == id_)
    ended = statuses["delivered"] + statuses["dead"] + statuses["gone"]
    if ended:
        share = percent(statuses["delivered"] / ended)
        assert f"Success rate {share} of {number(ended)} that ended" in text, text
    assert f"Held {number(statuses['held'])} " in text
    assert f"Dead letters {number(statuses['dead'] + statuses['gone'])} " in text
    whole: Counter[str] = Counter()
    for since, until, label in bars(page):
        counted = attempts_of(rows, since, until, id_)
        if "answered within" not in label:
            whole += counted
            for each in legend_of(classified(counted)):
                assert not each.total or f"{number(each.total)} {each.name}" in label, label
    legend = legend_of(classified(whole))
    assert " ".join(f"{each.name} {number(each.total)}" for each in legend) in text
    assert whole.total() == len([row for row in rows.attempts if row.endpoint_id == id_])


async def check_answers(shop: Shop, rows: Rows) -> None:
    """Compare what the API answers."""
    since = rfc3339(utc_now() - timedelta(hours=1))
    for id_ in shop.endpoints.values():
        stats = await shop.get(f"/endpoints/{id_}/stats", since=since)
        statuses = Counter(row.status for row in rows.deliveries if row.endpoint_id == id_)
        assert Counter(stats["deliveries"]["by_status"]) == statuses
        made = [row for row in rows.attempts if row.endpoint_id == id_]
        assert stats["attempts"]["total"] == len(made)
        assert Counter(stats["attempts"]["by_result"]) == Counter(row.result for row in made)
    dead = [row for row in rows.deliveries if row.status in ("dead", "gone")]
    found = await shop.get("/dead-letters/stats")
    assert found["total"] == len(dead)
    for name, key in (("by_endpoint", "endpoint_id"), ("by_reason", "reason")):
        counted = Counter(getattr(row, key) for row in dead)
        assert {row[key]: row["count"] for row in found[name]} == counted
    whole = (await shop.get("/figures", since=since, step="1h", by="status"))["total"]
    assert whole["accepted"] == len(rows.deliveries)
    assert whole["attempts"] == len(rows.attempts)
    assert whole["succeeded"] == sum(row.result == "success" for row in rows.attempts)
    assert Counter(whole["by_status"]) == Counter(row.status for row in rows.deliveries)


@pytest.mark.timeout(1_200)
async def test_every_figure_after_a_burst_equals_a_count_of_rows(
    database_url: str, tmp_path: Path, chromium_path: str
) -> None:
    async with Receiver() as receiver, shop(tmp_path, database_url, receiver) as running:
        await burst(running, 3_000)
        rows = await Rows.read(SimpleNamespace(database=running.database), None)
        statuses = {row.status for row in rows.deliveries}
        assert statuses == {
            *("delivered", "dead", "gone", "retrying", "held", "paused", "cancelled", "pending")
        }
        assert await recount.differences(running.database) == {}
        await check_answers(running, rows)
        origin = str(running.client.base_url).partition("/v1")[0]
        async with browser(chromium_path, origin) as visitor:
            for window in ("1h", "24h"):
                await check_overview(visitor, rows, window)
                await check_endpoint(visitor, running, rows, "silent", window)
            for name in running.endpoints.keys() - {"silent"}:
                await check_endpoint(visitor, running, rows, name, "1h")
            for chosen in (
                {},
                {"status": "dead"},
                {"endpoint_id": running.endpoints["fine"]},
                {"event_type": type_of("failing")},
            ):
                query = "&".join(f"{name}={value}" for name, value in chosen.items())
                path = f"/dashboard/deliveries?within=1h&{query}"
                await check_list(visitor, rows, path, chosen)
