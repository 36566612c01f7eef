"""`GET /v1/search` leads from any id, key, URL or name to what it belongs to, and never to what
belongs to another tenant."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import httpx2
import pytest
from sqlalchemy import insert

from api.context.context import Context
from hookfast.ids import new_id
from hookfast.storage.tables import Attempt, Notice
from tests.integration.api.inbound import send
from tests.integration.api.shared.one_of_everything import EVENT_TYPE, one_of_everything
from tests.support.api_client import Json, KeyClient, assert_problem

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A tenant with one of everything, and what leads to it."""

    ids: dict[str, str]
    name: str
    url: str
    event_type: str
    operators_key: str
    own_key: str
    github_id: str

    @property
    def texts(self) -> list[tuple[str, str, str]]:
        """Texts, each with the kind and the id of what it finds."""
        ids = self.ids
        shortened = f"dlv_…{ids['delivery_id'][-8:]}"
        return [
            (ids["event_id"], "event", ids["event_id"]),
            (ids["delivery_id"], "delivery", ids["delivery_id"]),  # also the message id
            (ids["endpoint_id"], "endpoint", ids["endpoint_id"]),
            (ids["subscription_id"], "subscription", ids["subscription_id"]),
            (ids["source_id"], "source", ids["source_id"]),
            (ids["inbox_id"], "inbox_entry", ids["inbox_id"]),
            (ids["job_id"], "job", ids["job_id"]),
            (ids["key_id"], "api_key", ids["key_id"]),
            (ids["tenant_id"], "tenant", ids["tenant_id"]),
            (ids["attempt_id"], "delivery", ids["delivery_id"]),
            (ids["notice_id"], "endpoint", ids["endpoint_id"]),
            (shortened, "delivery", ids["delivery_id"]),
            (ids["delivery_id"].removeprefix("dlv_"), "delivery", ids["delivery_id"]),
            (f' "{ids["event_id"]}",\n', "event", ids["event_id"]),
            (f"delivery/{ids['delivery_id']}", "delivery", ids["delivery_id"]),
            (f'{{"delivery_id":"{ids["delivery_id"]}"}}', "delivery", ids["delivery_id"]),
            (f"https://x.test/dashboard/jobs/{ids['job_id']}?a=1", "job", ids["job_id"]),
            (self.own_key, "event", ids["keyed_event_id"]),
            (self.github_id, "inbox_entry", ids["keyed_inbox_id"]),
            (ids["test_id"], "test", ids["test_id"]),
            (f"id:{self.github_id}", "inbox_entry", ids["keyed_inbox_id"]),
            (self.url, "endpoint", ids["endpoint_id"]),
            (f"{self.url.upper()}/?challenge=1#x", "endpoint", ids["endpoint_id"]),
            (self.url.partition("//")[2], "endpoint", ids["endpoint_id"]),
            (self.url.rpartition("/")[2], "endpoint", ids["endpoint_id"]),
            (f"desk of {self.name}", "endpoint", ids["endpoint_id"]),
        ]


@pytest.fixture(scope="session")
async def shop(client: httpx2.AsyncClient, context: Context, key_client: KeyClient) -> Shop:
    ids = await one_of_everything(client)
    own = uuid.uuid4().hex[:10]
    url, name = f"http://127.0.0.1:4/hooks-{own}", f"Shop {own}"
    await client.patch(f"/tenants/{ids['tenant_id']}", json={"name": name})
    changed = await client.patch(
        f"/endpoints/{ids['endpoint_id']}", json={"url": url, "description": f"Desk of {name}"}
    )
    assert changed.status_code == 200, changed.text
    event_type = f"invoice{own}.line.added"
    await client.put(f"/event-types/{event_type}", json={})
    event = {"type": EVENT_TYPE, "data": {}, "tenant_id": ids["tenant_id"]}
    keyed = await client.post("/events", json=event, headers={"Idempotency-Key": f"ops-{own}"})
    ids["operators_event_id"] = keyed.json()["id"]
    async with key_client(ids["tenant_id"]) as theirs:
        key = {"Idempotency-Key": f'"own-{own}"'}
        ids["keyed_event_id"] = (await theirs.post("/events", json=event, headers=key)).json()["id"]
    github_id = str(uuid.uuid4())
    received = await send(client, ids["source_id"], {"n": own}, delivery=github_id)
    ids["keyed_inbox_id"] = received.json()["id"]
    now = context.clock()
    ids |= {"attempt_id": new_id("att", now), "notice_id": new_id("ntc", now)}
    async with context.database.write() as connection:
        await connection.execute(insert(Attempt.__table__), attempt(ids) | {"started_at": now})
        await connection.execute(insert(Notice.__table__), notice(ids) | {"created_at": now})
    return Shop(
        ids=ids,
        name=name,
        url=url,
        event_type=event_type,
        operators_key=f"ops-{own}",
        own_key=f'"own-{own}"',
        github_id=github_id,
    )


def attempt(ids: dict[str, str]) -> Json:
    return {
        "id": ids["attempt_id"],
        "delivery_id": ids["delivery_id"],
        "endpoint_id": ids["endpoint_id"],
        "number": 1,
        "trigger": "first",
        "duration_ms": 1.0,
        "result": "timeout",
    }


def notice(ids: dict[str, str]) -> Json:
    return {
        "id": ids["notice_id"],
        "endpoint_id": ids["endpoint_id"],
        "tenant_id": ids["tenant_id"],
        "episode": 1,
        "kind": "opened",
        "email": "owner@shop.example",
        "owner_hash": "x",
        "facts": {},
        "status": "sent",
        "tries": 1,
        "workflow_started_at": None,
    }


async def found(client: httpx2.AsyncClient, text: str, **query: str) -> Json:
    answer = await client.get("/search", params={"q": text} | query)
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


async def test_every_id_key_url_and_name_finds_what_it_belongs_to(
    client: httpx2.AsyncClient, key_client: KeyClient, shop: Shop
) -> None:
    async with key_client(shop.ids["tenant_id"]) as theirs:
        for text, kind, id_ in shop.texts:
            for caller in (client, theirs):
                hits = [(hit["kind"], hit["id"]) for hit in (await found(caller, text))["data"]]
                assert hits == [(kind, id_)], text
        for text, _, id_ in shop.texts:
            (hit,) = (await found(theirs, text))["data"]
            assert hit["tenant_id"] == shop.ids["tenant_id"]
            shown = await theirs.get(hit["url"].removeprefix("/v1"))
            assert shown.status_code == 200, hit
            assert id_ in shown.text, hit


async def test_event_types_are_found_by_a_part_or_a_pattern(
    client: httpx2.AsyncClient, shop: Shop
) -> None:
    first, noun, _ = shop.event_type.split(".")
    for text in (shop.event_type, first, f"{first}.{noun}", f"{first}.*.added", f"{first}.**"):
        (hit,) = (await found(client, text))["data"]
        assert (hit["kind"], hit["id"]) == ("event_type", shop.event_type), text
        assert hit["exact"] is (text == shop.event_type)


async def test_tenants_and_their_keys_are_found_by_operators_only(
    client: httpx2.AsyncClient, key_client: KeyClient, shop: Shop
) -> None:
    ids = shop.ids
    by_name = (await found(client, shop.name.lower()))["data"]
    assert [(hit["kind"], hit["exact"]) for hit in by_name] == [
        ("endpoint", False),
        ("tenant", True),
    ]
    (by_key,) = (await found(client, shop.operators_key))["data"]
    assert by_key["id"] == ids["operators_event_id"]
    own = await found(client, shop.own_key, tenant_id=ids["tenant_id"])
    assert [hit["id"] for hit in own["data"]] == [ids["keyed_event_id"]]
    async with key_client(ids["tenant_id"]) as theirs:
        # the keys of the operator are not the tenant's
        assert (await found(theirs, shop.operators_key))["data"] == []
        by_name = (await found(theirs, shop.name))["data"]
        assert [hit["kind"] for hit in by_name] == ["endpoint"]
    async with key_client(ids["tenant_id"], scope="tenant:read") as reader:
        assert (await found(reader, ids["key_id"]))["data"] == []


async def test_tenant_never_finds_what_belongs_to_another(
    client: httpx2.AsyncClient, key_client: KeyClient, victim: dict[str, str], shop: Shop
) -> None:
    async with key_client(victim["tenant_id"]) as attacker:
        for text, _, _ in shop.texts:
            theirs = await found(attacker, text)
            assert theirs["data"] == [], text
            assert theirs["hint"]
        for text in (shop.operators_key, shop.name, shop.ids["operators_event_id"]):
            assert (await found(attacker, text))["data"] == [], text
    for text, _, _ in shop.texts:  # nor does the operator who asks for one tenant
        assert (await found(client, text, tenant_id=victim["tenant_id"]))["data"] == [], text


async def test_text_that_finds_nothing_is_explained(client: httpx2.AsyncClient) -> None:
    for text, looks_like in (
        ("dlv_" + "0" * 32, "id"),
        ("dlv_…00000000", "shortened_id"),
        ("evt_12345678", "text"),
        ("4bf92f3577b34da6a3ce929d0e0e4736", "trace_id"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "trace_id"),
        ("https://nowhere.example/hook", "url"),
        ("no.such.type", "event_type"),
        ("100% _unknown_", "text"),
        ("%", "text"),
    ):
        answer = await found(client, text)
        assert (answer["data"], answer["looks_like"]) == ([], looks_like), text
        assert answer["hint"]
    for text in ("hf_" + "x" * 43, "whsec_" + "A" * 24, "Bearer hf_x"):
        answer = await client.get("/search", params={"q": text})
        problem = assert_problem(answer, 422, code="secret_in_search", pointer="q")
        assert text not in str(problem)
    assert_problem(
        await client.get("/search", params={"q": ' "" '}), 422, code="invalid_input", pointer="q"
    )
