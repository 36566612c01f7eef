"""The data of the browser tests: an online shop with a healthy endpoint, a failing one, a disabled
one, and an hour of deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx2
import trustme
from sqlalchemy import insert, update

from api.app import create_app
from api.context.context import Context
from hookfast.ids import new_id
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Attempt, Delivery, Endpoint, EndpointHealth, RetentionRun
from tests.integration.api.inbound import SECRET, send
from tests.support.api_client import (
    OPERATOR_KEY,
    client_with,
    endpoint_maker,
    event_type_maker,
    maker,
    started,
)
from tests.support.certificates import client_identity, pem
from tests.support.figures import count_rows
from tests.support.rows import attempt_row, delivery_row

EVENT_TYPE = "order.invoice.paid"
IDEMPOTENCY_KEY = "invoice-4711-paid"
GITHUB_ID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
ERROR = "The server answered 503 Service Unavailable."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The ids of the data. `failed` has three attempts and waits for its fourth; `dead` are dead
    letters of `broken`."""

    tenant_id: str
    fine: str
    broken: str
    broken_subscription: str
    gone: str
    event_id: str
    failed: str
    dead: tuple[str, ...]
    source_id: str
    inbox_id: str
    key_id: str
    test_id: str


async def set_scene(database: Database, settings: Settings) -> Scene:
    """Fill an empty database, and return the ids."""
    async with started(create_app(settings), settings) as app:
        context: Context = app.state.context
        async with client_with(app, OPERATOR_KEY) as client:
            ids = await _create_resources(client)
        now = context.clock()
        await _age_endpoints(database, now)
        await _deliveries(database, ids, now)
        failed = await add_delivery(database, ids, "broken", now - timedelta(minutes=4), "retrying")
        await _attempts(database, failed, ids["broken"], now)
        dead = [
            await add_delivery(database, ids, "broken", now - timedelta(minutes=20 + place), "dead")
            for place in range(6)
        ]
        await _outage(database, ids["broken"], now)
        await _retention(database, now)
        await count_rows(database)
    return Scene(
        tenant_id=ids["tenant"],
        fine=ids["fine"],
        broken=ids["broken"],
        broken_subscription=ids["broken subscription"],
        gone=ids["gone"],
        event_id=ids["event"],
        failed=failed,
        dead=tuple(dead),
        source_id=ids["source"],
        inbox_id=ids["inbox"],
        key_id=ids["key"],
        test_id=ids["test"],
    )


async def _create_resources(client: httpx2.AsyncClient) -> dict[str, str]:
    await maker(client, "/tenants")(name="Flower Stall")  # nothing is wrong there
    tenant = (await maker(client, "/tenants")(name="Corner Shop"))["id"]
    schema = {"type": "object", "examples": [{"invoice_id": "in_1", "amount": 129900}]}
    await event_type_maker(client)(EVENT_TYPE, description="An invoice was paid.", schema=schema)
    ids = {"tenant": tenant}
    for name, words in (("fine", "Ledger"), ("broken", "Warehouse"), ("gone", "Old shop")):
        created = await endpoint_maker(client)(
            tenant_id=tenant,
            url=f"http://127.0.0.1:4/{name}",
            description=words,
            # the second matches no event type, which the page says
            events=["order.**", "order.invoice.payed"],
            owner_emails=["ops@example.com"],
        )
        ids[name], ids[f"{name} subscription"] = created["id"], created["subscription"]["id"]
    await _set_credentials(client, ids["fine"])
    conditions = {"amount": {"$gte": 100_000}, "customer.country": {"$nin": ["US", "CA"]}}
    path = f"/subscriptions/{ids['broken subscription']}"
    assert (await client.patch(path, json={"filter": conditions})).is_success
    event = await client.post(
        "/events",
        json={
            "tenant_id": tenant,
            "type": EVENT_TYPE,
            "data": {"invoice_id": "in_4711", "amount": 129900},
        },
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
    )
    ids["event"] = event.json()["id"]
    tested = await client.post(f"/endpoints/{ids['broken']}/test", json={"type": EVENT_TYPE})
    ids["test"] = tested.json()["message_id"]
    await client.post(f"/endpoints/{ids['gone']}/disable")
    source = {"tenant_id": tenant, "name": "GitHub", "provider": "github", "secrets": [SECRET]}
    ids["source"] = (await client.post("/sources", json=source)).json()["id"]
    received = await send(client, ids["source"], {"ref": "refs/heads/main"}, delivery=GITHUB_ID)
    ids["inbox"] = received.json()["id"]
    await client.put("/event-types/github.push.received", json={"schema": {"required": ["size"]}})
    await send(client, ids["source"], {"ref": "refs/heads/topic"})  # violates the schema
    ids["key"] = (await client.get("/api-keys")).json()["data"][0]["id"]
    return ids


async def _set_credentials(client: httpx2.AsyncClient, endpoint_id: str) -> None:
    """Set credentials that replace others, so that the pages have everything to show."""
    path = f"/endpoints/{endpoint_id}"
    await client.patch(path, json={"url": "https://127.0.0.1:4/fine"})
    authority = trustme.CA()
    tls = client_identity(authority) | {"authorities": pem(authority)}
    oauth2 = {"kind": "oauth2", "token_url": "https://127.0.0.1:4/token", "client_id": "shop"}
    for secret in ("old", "new"):
        changes = {"authentication": oauth2 | {"client_secret": secret}, "tls": tls}
        for member, form in changes.items():
            changed = await client.put(f"{path}/{member}", json=form)
            assert changed.status_code == 200, changed.text


async def _age_endpoints(database: Database, now: datetime) -> None:
    """Make the endpoints older than their deliveries: their charts begin when they were created."""
    async with database.write() as connection:
        await connection.execute(
            update(Endpoint.__table__).values(created_at=now - timedelta(days=2))
        )


async def _deliveries(database: Database, ids: dict[str, str], now: datetime) -> None:
    for minute in range(1, 56):
        for place in range(1 + minute * 7 % 5):
            at = now - timedelta(minutes=minute, seconds=place * 9)
            status = "dead" if (minute, place) in ((31, 0), (32, 1)) else "delivered"
            await add_delivery(database, ids, "fine", at, status)


async def _retention(database: Database, now: datetime) -> None:
    """Insert last night's run of retention."""
    run = RetentionRun(
        id=new_id("ret", now),
        status="done",
        dry_run=False,
        workflow_id="retention",
        started_at=now - timedelta(hours=3),
        finished_at=now - timedelta(hours=3) + timedelta(seconds=2),
    )
    async with database.write() as connection:
        cutoffs = {name: now - timedelta(days=30) for name in ("deliveries", "dead_letters")}
        await retention_runs.begin(connection, run, cutoffs=cutoffs)


async def add_delivery(
    database: Database, ids: dict[str, str], name: str, at: datetime, status: str
) -> str:
    ended = status in ("delivered", "dead")
    took = timedelta(milliseconds=40 + (at.minute * 37 + at.second * 13) % 900)
    row = delivery_row(
        at,
        event_id=ids["event"],
        subscription_id=ids[f"{name} subscription"],
        endpoint_id=ids[name],
        tenant_id=ids["tenant"],
        event_type=EVENT_TYPE,
        status=status,
        reason="retries_exhausted" if status == "dead" else None,
        attempts=1 if ended else 3,
        retries=0 if ended else 2,
        last_error=None if status == "delivered" else ERROR,
        next_attempt_at=None if ended else at + timedelta(minutes=19),
        started_at=at,
        finished_at=at + took if ended else None,
    )
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), row)
    return str(row["id"])


async def _attempts(database: Database, delivery_id: str, endpoint_id: str, now: datetime) -> None:
    for number in (1, 2, 3):
        at = now - timedelta(minutes=5 - number)
        async with database.write() as connection:
            await connection.execute(
                insert(Attempt.__table__),
                attempt_row(
                    *(at, delivery_id, endpoint_id),
                    number=number,
                    trigger="first" if number == 1 else "retry",
                    duration_ms=12.5 * number,
                    status_code=503,
                    error=ERROR,
                    response_excerpt="<h1>Down for maintenance</h1>",
                    url="https://example.com/hook",
                    request_headers="Host: example.com\nwebhook-signature: ***",
                    response_headers="Server: example",
                ),
            )


async def _outage(database: Database, endpoint_id: str, now: datetime) -> None:
    async with database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__),
            {
                "endpoint_id": endpoint_id,
                "consecutive_failures": 7,
                "first_failure_at": now - timedelta(minutes=9),
                "last_failure_at": now - timedelta(minutes=2),
                "last_error": ERROR,
                "circuit": "open",
                "episode": 1,
                "cause": "failures",
                "opened_at": now - timedelta(minutes=8),
                "probes": 2,
                "next_probe_at": now + timedelta(minutes=25),
                "workflow_started_at": now,
            },
        )
