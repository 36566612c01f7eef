"""Event types that are not registered: in subscriptions, in emitted events, and as a setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.settings.settings import Settings
from hookfast.storage.events import catalogue
from tests.support.api_client import (
    Json,
    Make,
    MakeEventType,
    assert_problem,
    development_settings,
)
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

STRICT = pytest.mark.parametrize("settings", [{"strict_subscriptions": True}], indirect=True)
THREE_PARTS = pytest.mark.parametrize("settings", [{"event_type_parts": 3}], indirect=True)


@pytest.fixture
def settings(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Settings:
    changed: dict[str, Any] = getattr(request, "param", {})
    return development_settings(database_url, tmp_path).model_copy(update=changed)


@pytest.fixture
async def endpoint(make_tenant: Make, make_endpoint: Make) -> Json:
    return await make_endpoint(tenant_id=(await make_tenant())["id"])


def _warnings(document: Json) -> list[tuple[str, str]]:
    assert {warning["code"] for warning in document["warnings"]} <= {"unknown_event_type"}
    return [(warning["pointer"], warning["detail"]) for warning in document["warnings"]]


async def test_pattern_without_a_registered_type_is_accepted_with_a_warning(
    client: httpx2.AsyncClient,
    endpoint: Json,
    make_event_type: MakeEventType,
    make_endpoint: Make,
    make_subscription: Make,
) -> None:
    new = {"endpoint_id": endpoint["id"]}
    empty = await make_subscription(**new, events=["**"])
    assert _warnings(empty) == [
        ("/events/0", "No event type is registered yet, so '**' matches none.")
    ]
    for name in ("order.invoice.paid", "order.line_item.created.v2", "ping"):
        await make_event_type(name)
    known = await make_subscription(
        **new, events=["order.invoice.paid", "order.**", "*", "*.*.paid", "**", "hookfast.**"]
    )
    assert known["warnings"] == []
    events = ["order.**", "order.invoice.payed", "order.*", "order.invoice.payed", "zebra.**"]
    expected = [
        (
            "/events/1",
            "No registered event type matches 'order.invoice.payed' yet. Did you mean "
            "'order.invoice.paid'?",
        ),
        (
            "/events/2",
            "No registered event type matches 'order.*' yet. Did you mean 'order.**'?",
        ),
        ("/events/4", "No registered event type matches 'zebra.**' yet."),
    ]
    made = await make_subscription(**new, events=events)
    assert _warnings(made) == expected
    first = await make_endpoint(tenant_id=endpoint["tenant_id"], events=events)
    assert _warnings(first) == expected
    path = f"/subscriptions/{made['id']}"
    assert "warnings" not in (await client.get(path)).json()
    # the pattern matches from the moment that its type is registered
    await make_event_type("zebra.striped")
    patched = (await client.patch(path, json={"events": ["zebra.*", "zebra.*.*"]})).json()
    assert [pointer for pointer, _ in _warnings(patched)] == ["/events/1"]
    assert (await client.patch(path, json={"events": ["zebra.*"]})).json()["warnings"] == []
    await client.delete("/event-types/zebra.striped")
    off = (await client.patch(path, json={"active": False})).json()
    assert [pointer for pointer, _ in _warnings(off)] == ["/events/0"]


async def test_only_the_system_tenant_gets_operational_events_by_a_wildcard(
    make_tenant: Make, make_endpoint: Make
) -> None:
    other = (await make_tenant())["id"]
    for tenant, count in ((SYSTEM_TENANT, 0), (other, 2)):
        made = await make_endpoint(tenant_id=tenant, events=["**", "*.endpoint.disabled"])
        assert len(made["warnings"]) == count
    misspelt = await make_endpoint(tenant_id=other, events=["hookfast.endpoint.disable"])
    assert "Did you mean 'hookfast.endpoint.disabled'?" in misspelt["warnings"][0]["detail"]


async def test_every_page_of_a_large_catalogue_is_read(
    monkeypatch: pytest.MonkeyPatch,
    endpoint: Json,
    make_event_type: MakeEventType,
    make_subscription: Make,
) -> None:
    monkeypatch.setattr(catalogue, "PAGE", 2)
    for name in ("a.a", "b.b.b", "i.i.i", "z.y"):  # and those of Hookfast in the middle
        await make_event_type(name)
    made = await make_subscription(
        endpoint_id=endpoint["id"], events=["a.a", "z.y", "*.y", "z.**", "z.x", "*.*.*.*", "i.*.*"]
    )
    assert [pointer for pointer, _ in _warnings(made)] == ["/events/4", "/events/5"]


@STRICT
async def test_strict_subscriptions_are_rejected_before_the_receiver_is_asked(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    make_tenant: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.invoice.paid")
    tenant = (await make_tenant())["id"]
    new = {"tenant_id": tenant, "url": receiver.url("/challenge")}
    rejected = await client.post(
        "/endpoints", json=new | {"events": ["**", "order.invoice.payed", "order.*"]}
    )
    problem = assert_problem(rejected, 422, code="unknown_event_type", pointer="/events/1")
    assert [error["pointer"] for error in problem["errors"]] == ["/events/1", "/events/2"]
    assert "Did you mean 'order.invoice.paid'?" in problem["errors"][0]["detail"]
    assert "HOOKFAST_STRICT_SUBSCRIPTIONS" in problem["detail"]
    assert receiver.requests == []
    made = await client.post("/endpoints", json=new | {"events": ["order.**"]})
    assert made.status_code == 201, made.text
    asked = len(receiver.requests)
    form = {"endpoint_id": made.json()["id"], "events": ["invoice.paid"]}
    assert_problem(await client.post("/subscriptions", json=form), 422, code="unknown_event_type")
    path = f"/subscriptions/{made.json()['subscription']['id']}"
    more = await client.patch(path, json={"events": ["order.**", "refund.**"]})
    assert_problem(more, 422, code="unknown_event_type", pointer="/events/1")
    assert len(receiver.requests) == asked
    # what it has already stays, also when its event types are deleted
    await client.delete("/event-types/order.invoice.paid")
    off = await client.patch(path, json={"active": False})
    assert (off.status_code, len(off.json()["warnings"])) == (200, 1)


async def test_unknown_type_of_an_event_gets_a_suggestion(
    client: httpx2.AsyncClient, context: Context, tenant: str, make_event_type: MakeEventType
) -> None:
    await make_event_type("order.invoice.paid")
    rejected = await client.post("/events", json={"type": "invoice.paid", "data": 1})
    problem = assert_problem(rejected, 422, code="unknown_event_type", pointer="/type")
    assert "Did you mean 'order.invoice.paid'?" in problem["detail"]
    batch = [{"type": name, "data": 1} for name in ("order.invoice.payed", "zebra.striped")]
    results = (await client.post("/events/batch", json={"events": batch})).json()["data"]
    details = [result["problem"]["detail"] for result in results]
    assert ["Did you mean" in detail for detail in details] == [True, False]
    # those of Hookfast cannot be emitted, so they are not suggested
    rejected = await client.post("/events", json={"type": "endpoint.disabled", "data": 1})
    assert "Did you mean" not in rejected.json()["detail"]
    # a type that was registered just now is found
    await make_event_type("zebra.is_striped")
    rejected = await client.post("/events", json={"type": "zebra.striped", "data": 1})
    assert "Did you mean 'zebra.is_striped'?" in rejected.json()["detail"]


async def test_flood_of_unknown_types_costs_a_bounded_number_of_searches(
    client: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.invoice.paid")
    searched: list[str] = []
    find = catalogue.Catalogue.suggest_type
    monkeypatch.setattr(
        catalogue.Catalogue,
        "suggest_type",
        lambda self, text: searched.append(text) or find(self, text),
    )
    batch = [{"type": f"order.invoice.payed{number}", "data": 1} for number in range(500)]
    answer = await client.post("/events/batch", json={"events": batch * 2})
    problems = [result["problem"] for result in answer.json()["data"]]
    assert {problem["code"] for problem in problems} == {"unknown_event_type"}
    # the batch may have lasted from one second to the next
    assert 50 <= len(searched) == len(set(searched)) <= 150


async def test_types_of_one_to_six_parts_are_delivered_to_the_patterns_that_match(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    make_subscription: Make,
) -> None:
    tenant = (await make_tenant())["id"]
    endpoint = await make_endpoint(tenant_id=tenant)
    patterns = ["*", "a.*", "a.**", "a.b.*.d.**", "a.b.c.d.e.f", "*.*.*.*.*.*", "**"]
    for pattern in patterns:
        await make_subscription(endpoint_id=endpoint["id"], events=[pattern])
    received = {
        "a": 2,
        "a.b": 3,
        "a.b.c": 2,
        "a.b.c.d": 2,
        "a.b.c.d.e": 3,
        "a.b.c.d.e.f": 5,
        "z.b.c.d.e.f": 2,
    }
    for name, count in received.items():
        await make_event_type(name)
        event = {"type": name, "tenant_id": tenant, "data": {}}
        emitted = await client.post("/events", json=event)
        assert (emitted.status_code, emitted.json()["deliveries"]) == (202, count), name
        listed = await client.get("/subscriptions", params={"matches": name})
        assert len(listed.json()["data"]) == count, name


@THREE_PARTS
async def test_demanded_parts_apply_to_new_names_and_not_to_registered_ones(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tenant = (await make_tenant())["id"]
    source: Json = {"tenant_id": tenant, "name": "x", "provider": "github", "secrets": ["s" * 32]}
    with monkeypatch.context() as earlier:  # registered before the setting
        earlier.setitem(context.settings.__dict__, "event_type_parts", None)
        await make_event_type("invoice.paid")
        renaming = source | {"event_types": {"github.**": "code.changed"}}
        kept = (await client.post("/sources", json=renaming)).json()
    for name in ("invoice", "refund.paid", "order.line_item.created.v2", "Invoice"):
        rejected = await client.put(f"/event-types/{name}", json={})
        problem = assert_problem(rejected, 422, code="invalid_event_type", pointer="name")
        assert "exactly 3 parts" in problem["detail"]
    await make_event_type("order.invoice.paid")
    await make_event_type("invoice.paid", description="Still valid.")
    event = {"type": "invoice.paid", "tenant_id": tenant, "data": 1}
    assert (await client.post("/events", json=event)).status_code == 202
    made = await make_endpoint(
        tenant_id=tenant, events=["invoice.*", "order.paid", "order.**", "a.b.c.**", "refund.**"]
    )
    assert _warnings(made) == [
        (
            "/events/1",
            "No event type can match 'order.paid': event types have exactly 3 parts here "
            "(HOOKFAST_EVENT_TYPE_PARTS). Did you mean 'order.invoice.paid'?",
        ),
        (
            "/events/3",
            "No event type can match 'a.b.c.**': event types have exactly 3 parts here "
            "(HOOKFAST_EVENT_TYPE_PARTS).",
        ),
        ("/events/4", "No registered event type matches 'refund.**' yet."),
    ]
    # the names that sources register
    for members, pointer in (
        ({"event_types": {"github.**": "code.changed"}}, "/event_types/github.**"),
        (
            {
                "provider": "generic",
                "options": {"fixed_type": "code.changed", "signature_header": "X-Sig"},
            },
            "/options/fixed_type",
        ),
    ):
        rejected = await client.post("/sources", json=source | members)
        problem = assert_problem(rejected, 422, code="invalid_event_type", pointer=pointer)
        assert "exactly 3 parts" in problem["detail"]
    path = f"/sources/{kept['id']}"
    assert (await client.patch(path, json={"active": False})).status_code == 200
    patch = {"event_types": {"github.**": "code.pushed"}}
    assert_problem(await client.patch(path, json=patch), 422, code="invalid_event_type")
