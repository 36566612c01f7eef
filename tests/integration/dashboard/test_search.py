"""The search box of the header, and the fields in which one picks by name."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import (
    Forms,
    Visitor,
    tenant_visitor,
    text_of,
)

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A tenant with a name of its own, two endpoints, and a dead letter of each. All tenants share
    the two event types of `namespace`."""

    name: str
    tenant_id: str
    ledger: str
    depot: str
    deliveries: dict[str, str]
    namespace: str


@pytest.fixture(scope="session")
async def desk(client: httpx2.AsyncClient, context: Context) -> Desk:
    own = uuid.uuid4().hex[:8]
    tenant = await new_tenant(client, f"Desk {own}")
    ids = [
        await new_endpoint(
            client, tenant, description=f"{name} {own}", url=f"http://127.0.0.1:4/{name}-{own}"
        )
        for name in ("Ledger", "Depot")
    ]
    await emit(client, tenant)
    namespace = f"n{uuid.uuid4().hex[:8]}"
    for verb in ("opened", "closed"):
        await client.put(f"/event-types/{namespace}.drawer.{verb}", json={})
    listed = (await client.get("/deliveries", params={"tenant_id": tenant})).json()["data"]
    deliveries = {each["endpoint_id"]: each["id"] for each in listed}
    await end(context, *deliveries.values())
    return Desk(
        name=own,
        tenant_id=tenant,
        ledger=ids[0],
        depot=ids[1],
        deliveries=deliveries,
        namespace=namespace,
    )


async def test_one_hit_is_shown_at_once_and_several_are_listed(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor, desk: Desk
) -> None:
    delivery = desk.deliveries[desk.ledger]
    for text, page in (
        (f"  '{delivery}' ", f"/dashboard/deliveries/{delivery}"),
        (f"ledger-{desk.name}", f"/dashboard/endpoints/{desk.ledger}"),
        (f"Desk {desk.name}", f"/dashboard/tenants/{desk.tenant_id}"),
        ("order.invoice.paid", "/dashboard/event-types/order.invoice.paid"),
    ):
        answer = await operator.get("/dashboard/search", params={"q": text})
        assert (answer.status_code, answer.headers.get("location")) == (303, page), text
    page = (await operator.get("/dashboard/search", params={"q": desk.name})).text
    for kind in ("Endpoints", "Tenants"):
        assert kind in text_of(page)
    assert f'href="/dashboard/endpoints/{desk.depot}"' in page
    # the box searches within the tenant that an operator has chosen, and says what others have
    other = await new_tenant(client, "Another")
    await operator.submit("/dashboard/settings/tenant", tenant_id=other)
    try:
        elsewhere = await operator.get("/dashboard/search", params={"q": delivery})
        assert "This belongs to other tenants." in text_of(elsewhere.text)
        assert f'href="/dashboard/deliveries/{delivery}"' in elsewhere.text
    finally:
        await operator.submit("/dashboard/settings/tenant")
    async with tenant_visitor(app, client, other) as stranger:
        for text in (delivery, desk.name, desk.ledger, desk.tenant_id):
            answer = await stranger.get("/dashboard/search", params={"q": text})
            assert answer.status_code == 200
            assert "Nothing found" in text_of(answer.text)
            assert "What can be searched" in text_of(answer.text)
            assert "Ledger" not in answer.text


async def test_secret_is_neither_searched_nor_shown_again(operator: Visitor) -> None:
    secret = "hf_" + "s" * 43
    answer = await operator.get("/dashboard/search", params={"q": secret})
    assert answer.status_code == 422
    assert "looks like a secret" in text_of(answer.text)
    assert secret not in answer.text.replace("/dashboard/search?q=" + secret, "")
    assert (await operator.get("/dashboard/search")).status_code == 200


async def test_filters_take_names_parts_of_them_and_shortened_ids(
    operator: Visitor, desk: Desk
) -> None:
    ledgers, depots = desk.deliveries[desk.ledger], desk.deliveries[desk.depot]
    ledger = f"Ledger {desk.name}"
    for path, name, text, shown in (
        ("deliveries", "endpoint_id", desk.ledger, ledger),
        ("deliveries", "endpoint_id", f"ep_…{desk.ledger[-8:]}", ledger),
        ("deliveries", "endpoint_id", ledger.upper(), ledger),
        ("deliveries", "endpoint_id", f"/ledger-{desk.name}", ledger),
        ("deliveries", "endpoint_id", f"http://127.0.0.1:4/ledger-{desk.name}", ledger),
        ("dead-letters", "endpoint_id", f"ledger {desk.name}", ledger),
    ):
        answer = await operator.get(f"/dashboard/{path}", params={name: text})
        assert answer.status_code == 200, text
        assert f' name="{name}" value="{shown}"' in answer.text, text
        assert ledgers in answer.text, text
        assert depots not in answer.text, text
        # links and actions have the id: a name may become another endpoint's
        assert f"endpoint_id={desk.ledger}" in answer.text or path == "dead-letters"
        assert f'type="hidden" name="endpoint_id" value="{desk.ledger}"' in answer.text, text
    tenants = {"tenant_id": f"Desk {desk.name}"}
    for path in ("deliveries", "dead-letters", "endpoints", "events", "jobs", "inbox", "audit"):
        page = (await operator.get(f"/dashboard/{path}", params=tenants)).text
        assert f' name="tenant_id" value="Desk {desk.name}"' in page, path
    for text in ("order.invoice.paid", "invoice.pai"):
        query = tenants | {"event_type": text}
        page = (await operator.get("/dashboard/deliveries", params=query)).text
        assert ' name="event_type" value="order.invoice.paid"' in page
        assert ledgers in page
    for text in ("endpoint_disabled", "the endpoint is disabled", "is disabled"):
        page = (await operator.get("/dashboard/dead-letters", params={"reason": text})).text
        assert ' name="reason" value="the endpoint is disabled"' in page
        assert ledgers not in page


async def test_ambiguous_name_lists_the_candidates(operator: Visitor, desk: Desk) -> None:
    answer = await operator.get(
        "/dashboard/deliveries", params={"endpoint_id": desk.name, "status": "dead"}
    )
    assert answer.status_code == 422
    assert f"2 match: Depot {desk.name} , Ledger {desk.name} ." in text_of(answer.text)
    (to_ledger,) = re.findall(rf'href="([^"]*endpoint_id={desk.ledger})"', answer.text)
    followed = await operator.get(to_ledger.replace("&amp;", "&"))
    assert followed.status_code == 200
    assert desk.deliveries[desk.ledger] in followed.text
    assert 'value="all"' not in answer.text  # nothing to act on
    for name, text, error in (
        ("endpoint_id", "no such name", "No endpoint has this name"),
        ("endpoint_id", desk.deliveries[desk.ledger], "This is an id, but not of an endpoint."),
        ("tenant_id", "no such tenant", "No tenant has this name"),
        ("event_type", desk.namespace, f"2 match: {desk.namespace}.drawer.closed"),
    ):
        answer = await operator.get("/dashboard/deliveries", params={name: text})
        assert answer.status_code == 422, text
        assert error in text_of(answer.text), text


async def test_names_that_several_have_are_told_apart_by_id(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    for name in ("Ledger (EU)", "Ledger (EU) 2"):
        await new_endpoint(client, tenant, description=name)
    twins = [await new_endpoint(client, tenant, description="Twin") for _ in range(2)]
    async with tenant_visitor(app, client, tenant) as owner:
        page = (await owner.get("/dashboard/deliveries?status=dead")).text
        for twin in twins:
            assert f'<option value="{twin}">Twin, http' in page
        chosen = await owner.get("/dashboard/deliveries", params={"endpoint_id": twins[0]})
        assert f' name="endpoint_id" value="{twins[0]}"' in chosen.text
        exact = await owner.get("/dashboard/deliveries", params={"endpoint_id": "Ledger (EU)"})
        assert exact.status_code == 200
        assert ' name="endpoint_id" value="Ledger (EU)"' in exact.text
        ambiguous = await owner.get("/dashboard/deliveries", params={"endpoint_id": "twin"})
        assert "2 match: Twin (http" in text_of(ambiguous.text)


async def test_suggestions_are_those_of_the_visitors_tenant(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor, desk: Desk
) -> None:
    path, query = "/dashboard/choices/endpoints", {"q": f"LEDGER-{desk.name}"}
    async with tenant_visitor(app, client, desk.tenant_id) as owner:
        page = (await owner.get(path, params=query)).text
        assert page.count("<option") == 1
        assert f'value="Ledger {desk.name}">http://127.0.0.1:4/Ledger-{desk.name}<' in page
        assert (await owner.get("/dashboard/choices/tenants")).status_code == 403
        assert ">Tenant</label>" not in (await owner.get("/dashboard/deliveries")).text
    async with tenant_visitor(app, client, await new_tenant(client)) as stranger:
        assert "<option" not in (await stranger.get(path, params=query)).text
        query = {"endpoint_id": f"Ledger {desk.name}"}
        assert (await stranger.get("/dashboard/deliveries", params=query)).status_code == 422
    named = await operator.get("/dashboard/choices/tenants", params={"q": desk.name})
    assert f'value="Desk {desk.name}"' in named.text


async def test_forms_take_the_name_of_a_tenant_and_of_an_endpoint(
    client: httpx2.AsyncClient, operator: Visitor, desk: Desk
) -> None:
    new = {
        "url": "http://127.0.0.1:4/new",
        "description": f"New {desk.name}",
        "verification": "none",
        "signatures": "hook",
    }
    failed = await operator.post("/dashboard/endpoints/new", tenant_id="no such tenant", **new)
    assert failed.status_code == 422
    assert "no tenant has this name" in text_of(failed.text).lower()
    assert ' name="tenant_id" value="no such tenant"' in failed.text
    made = await operator.post("/dashboard/endpoints/new", tenant_id=f"desk {desk.name}", **new)
    assert "whsec_" in made.text
    found = (await client.get("/search", params={"q": f"New {desk.name}"})).json()["data"]
    assert found[0]["tenant_id"] == desk.tenant_id
    await client.delete(f"/endpoints/{found[0]['id']}")
    event = (await client.get(f"/deliveries/{desk.deliveries[desk.ledger]}")).json()["event_id"]
    path = f"/dashboard/events/{event}/replay"
    narrowed = await operator.get(path, params={"endpoint_id": f"Depot {desk.name}"})
    assert "1 delivery will be resent" in text_of(narrowed.text)
    forms = Forms(narrowed.text).found
    (fields,) = (given for method, to, given in forms if (method, to) == ("post", path))
    assert fields["endpoint_id"] == desk.depot
    unknown = await operator.get(path, params={"endpoint_id": "no such name"})
    assert "No endpoint has this name" in text_of(unknown.text)
    assert path not in Forms(unknown.text).posting()
