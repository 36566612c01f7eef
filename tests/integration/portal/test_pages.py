"""The pages of customers: adding an endpoint, its events, tests and activity, in their words."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, text_of
from tests.integration.portal.links import OWN, customer
from tests.support.api_client import event_type_maker
from tests.support.emitted import hold
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

LINK = re.compile(r'(?:href|data-load)="(/(?:portal|guide)[^"#]*)')
OPERATORS_WORDS = re.compile(
    r"circuit|tenant|\bjobs?\b|operator|workflow|temporal|dead letter|redrive|hookfast\."
    r"|subscription",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
async def catalogue(client: httpx2.AsyncClient) -> None:
    """Six event types in two branches, one of Hookfast's own."""
    for name in ("invoice.paid", "invoice.voided", "refund.created", "cart.abandoned"):
        schema = {"type": "object", "examples": [{"id": "x_1", "amount": 12}]}
        await event_type_maker(client)(f"order.{name}", description=f"About {name}.", schema=schema)
    await event_type_maker(client)("user.account.closed")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as started:
        yield started


async def shown(visitor: Visitor, path: str) -> str:
    """Return the text of a page."""
    page = await visitor.get(path)
    assert page.status_code == 200, f"{path}: {page.status_code}"
    return text_of(page.text)


@pytest.mark.usefixtures("catalogue")
async def test_endpoint_is_added_by_ticking_events(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    tenant = await new_tenant(client)
    async with customer(app, client, tenant) as visitor:
        form = await visitor.get("/portal/endpoints/new")
        assert "order.invoice.paid" in form.text
        assert "About invoice.voided." in form.text
        assert "hookfast.endpoint" not in form.text
        assert "Nothing chosen yet" in text_of(form.text)
        fields = {
            "url": receiver.url("/challenge"),
            "ticked": ["order.invoice.**", "order.refund.created"],
            "signatures": ["standard"],
        }
        counted = await visitor.post("/portal/endpoints/new", count="yes", **fields)
        assert "Matches 3 events" in text_of(counted.text)
        assert re.search(r'value="order.refund.created" checked', counted.text)
        assert "order.invoice.**</textarea>" in counted.text  # the tree has no box for it
        created = await visitor.post("/portal/endpoints/new", **fields)
        assert created.status_code == 200, text_of(created.text)
        secret = re.search(r"whsec_[A-Za-z0-9+/=]{44}", created.text)
        assert secret is not None
        for language in ("Python", "Node", "Go", "PHP", "Ruby", "Java"):
            assert f'<label for="verify-{language.lower()}">{language}</label>' in created.text
            code = re.search(
                rf'id="verify-code-{language.lower()}">(.*?)</pre>', created.text, re.S
            )
            assert code is not None
            assert secret[0] in unescape(code[1]), language
    (endpoint,) = (await client.get("/endpoints", params={"tenant_id": tenant})).json()["data"]
    (found,) = (await client.get("/subscriptions", params={"endpoint_id": endpoint["id"]})).json()[
        "data"
    ]
    assert found["events"] == ["order.invoice.**", "order.refund.created"]


@pytest.mark.usefixtures("catalogue")
async def test_errors_of_a_new_endpoint_are_at_its_fields(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    tenant = await new_tenant(client)
    good = {"url": receiver.url("/challenge"), "ticked": "**", "signatures": "standard"}
    wrong = {
        "url": {"url": "ftp://example.com"},
        "events": {"ticked": ""},
        "timeout_seconds": {"timeout_seconds": "soon"},
        "owner_emails": {"owner_emails": "nobody"},
        "own_plan": {"plan": "custom", "own_plan": "{"},
    }
    async with customer(app, client, tenant) as visitor:
        for field, given in wrong.items():
            answer = await visitor.post("/portal/endpoints/new", **good | given)
            assert answer.status_code == 422, field
            assert f'id="{field}-error" role="alert"' in answer.text, field
            assert "Not saved:" not in answer.text, field
        # the receiver does not answer the challenge: the error is at the URL, with what to answer
        refused = await visitor.post("/portal/endpoints/new", **good | {"url": receiver.url()})
        assert refused.status_code == 422
        assert 'id="url-error"' in refused.text
        assert re.search(r'<details class="wide" open><summary>The challenge', refused.text)
        assert receiver.url() in refused.text
    assert (await client.get("/endpoints", params={"tenant_id": tenant})).json()["data"] == []


@pytest.mark.usefixtures("catalogue")
async def test_events_of_an_endpoint_are_ticked_again(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    narrowed = {"endpoint_id": endpoint}
    (before,) = (await client.get("/subscriptions", params=narrowed)).json()["data"]
    path = f"/portal/endpoints/{endpoint}/events"
    edit = f"{path}/{before['id']}/edit"
    async with customer(app, client, tenant) as visitor:
        form = await visitor.get(edit)
        assert re.search(r'value="order.\*\*" checked', form.text)
        seen = re.search(r'name="seen" value="([^"]+)"', form.text)
        assert seen is not None
        none = await visitor.post(edit, ticked="", seen=seen[1])
        assert (none.status_code, 'id="events-error"' in none.text) == (422, True)
        wrong = await visitor.post(edit, ticked="order.**", filter='{"a": {"$x": 1}}', seen=seen[1])
        assert (wrong.status_code, 'id="filter-error"' in wrong.text) == (422, True)
        long = await visitor.post(edit, ticked="**", filter="{" + "\n" * 8 + "}", count="yes")
        assert 'name="filter" rows="9"' in long.text
        saved = await visitor.submit(
            edit, ticked=["order.cart.abandoned"], patterns="order.*.payed", seen=seen[1]
        )
        assert "The events are saved." in text_of(saved)
        unmatched = "order.*.payed No event matches this yet. Did you mean “order.*.paid”?"
        assert unmatched in text_of(saved)
        (after,) = (await client.get("/subscriptions", params=narrowed)).json()["data"]
        assert after["events"] == ["order.cart.abandoned", "order.*.payed"]
        assert after["filter"] is None
        # saved meanwhile by somebody else
        stale = await visitor.post(edit, ticked="**", seen=seen[1])
        assert stale.status_code == 409
        added = await visitor.submit(f"{path}/new", ticked="user.**", filter='{"a": 1}')
        assert "user.**" in text_of(added)
        assert "Stop…" in text_of(added)
        await visitor.submit(f"{path}/{before['id']}/delete", back=f"/portal/endpoints/{endpoint}")
    left = (await client.get("/subscriptions", params=narrowed)).json()["data"]
    assert [each["events"] for each in left] == [["user.**"]]


@pytest.mark.usefixtures("catalogue")
async def test_test_is_edited_sent_shown_in_full_and_kept_in_the_activity(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    tenant = await new_tenant(client)
    url = receiver.url()
    endpoint = await new_endpoint(client, tenant, url=url, verification="none")
    path = f"/portal/endpoints/{endpoint}/test"
    async with customer(app, client, tenant) as visitor:
        form = await visitor.get(f"{path}?type=order.refund.created")
        assert "&#34;id&#34;: &#34;x_1&#34;" in form.text
        data = '{"id": "mine", "amount": 1.50}'
        sent = await visitor.post(path, type="order.refund.created", data=data)
        page = sent.headers["location"]
        text = await shown(visitor, page)
        (request,) = await receiver.wait_for(1)
        assert json.loads(request.body)["data"] == {"id": "mine", "amount": 1.5}
        assert b"1.50" in request.body  # byte for byte
        for part in (f"POST {url}", "X-Hook-Test true", "webhook-signature ***", '"mine"', "200"):
            assert part in text, part
        listed = await shown(visitor, "/portal/activity")
        assert "order.refund.created delivered test" in listed
        assert "test" in await shown(visitor, "/portal/activity?kind=test")
        assert "order.refund" not in await shown(visitor, "/portal/activity?kind=failed")
        assert page in (await visitor.get(f"/portal/endpoints/{endpoint}")).text
        for wrong in ("{", '{"a": 1, "a": 2}', "", "x" * 300_000):
            rejected = await visitor.post(path, type="order.refund.created", data=wrong)
            assert rejected.status_code in (413, 422), wrong[:20]
        unknown = await visitor.post(path, type="hookfast.nothing.here", data="{}")
        assert unknown.status_code == 422
    assert (await client.get("/deliveries", params={"endpoint_id": endpoint})).json()["data"] == []


@pytest.mark.usefixtures("catalogue")
async def test_link_to_one_endpoint_shows_its_tests_and_no_others(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    tenant = await new_tenant(client)
    pages = []
    for _ in range(2):
        endpoint = await new_endpoint(client, tenant, url=receiver.url(), verification="none")
        async with customer(app, client, tenant, endpoint_id=endpoint) as visitor:
            path = f"/portal/endpoints/{endpoint}/test"
            sent = await visitor.post(path, type="order.refund.created", data='{"id": "mine"}')
            pages.append(sent.headers["location"])
            assert '"mine"' in await shown(visitor, pages[-1])
            others = [(await visitor.get(page)).status_code for page in pages[:-1]]
            assert set(others) <= {404}


@pytest.mark.usefixtures("catalogue")
async def test_message_on_hold_says_why_and_what_comes_next(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    message = await emit(client, tenant)
    await hold(context, message, endpoint, circuit="half_open")
    async with customer(app, client, tenant) as visitor:
        page = await shown(visitor, f"/portal/activity/{message}")
        assert "waiting" in page
        assert "It waits: the endpoint failed too often and is being tested." in page
        assert "if it arrives, the others follow by themselves. It has waited since" in page
        assert "Send now" in page
        assert "Cancel…" in page
        assert "Pause" not in page
        assert not OPERATORS_WORDS.search(page.partition("Message id")[0])


async def test_polled_endpoint_waits_and_a_blank_name_is_not_shown(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    form = {"tenant_id": tenant, "mode": "poll", "description": "  "}
    polled = (await client.post("/endpoints", json=form)).json()["id"]
    async with customer(app, client, tenant) as visitor:
        page = (await visitor.get(f"/portal/endpoints/{polled}")).text
        assert "Messages wait until your program fetches them." in text_of(page)
        assert "Messages are sent" not in text_of(page)
        assert f"<h1>{polled}</h1>" in page


async def test_activity_merges_messages_and_tests_page_by_page(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, receiver: Receiver
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, url=receiver.url(), verification="none")
    expected = []
    async with customer(app, client, tenant) as visitor:
        for place in range(7):
            if place % 3 == 1:
                sent = await visitor.post(
                    f"/portal/endpoints/{endpoint}/test", type="order.invoice.paid", data="{}"
                )
                expected.append(sent.headers["location"].rpartition("/")[2])
            else:
                expected.append(await emit(client, tenant))
        listed: list[str] = []
        path: str | None = "/portal/activity?limit=2"
        while path is not None:
            page = await visitor.get(path)
            assert page.status_code == 200
            listed += re.findall(r'<tr role="row" id="row-(dlv_[0-9a-f]{32})">', page.text)
            older = re.search(r'href="([^"]+)" rel="next"', page.text)
            path = None if older is None else unescape(older[1])
        assert listed == expected[::-1]
        await end(context, expected[0])
        failed = await visitor.get("/portal/activity?kind=failed")
        assert re.findall(r'id="row-(\w+)"', failed.text) == [expected[0]]
        wrong = await visitor.get("/portal/activity?event_type=No Type")
        assert wrong.status_code == 422
        assert (await visitor.get("/portal/activity?cursor=x")).status_code == 422


async def test_pages_speak_the_customers_language_and_have_no_dead_links(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    """Follow every link, with an endpoint in each state. Words inside code are data."""
    await end(context, shop["delivery_id"], reason="retries_exhausted")
    await client.post(f"/endpoints/{shop['other_endpoint_id']}/disable")
    found: dict[str, str] = {}
    async with customer(app, client, shop["tenant_id"]) as visitor:
        waiting = ["/portal"]
        while waiting:
            path = waiting.pop()
            if path.partition("?")[0] in found:
                continue
            page = await visitor.client.get(path, follow_redirects=True)
            assert page.status_code == 200, path
            found[path.partition("?")[0]] = page.text
            waiting += [unescape(each) for each in LINK.findall(page.text) if ".css" not in each]
    assert len(found) > 25
    for path, html in found.items():
        prose = re.sub(
            r"<(pre|code|textarea)\b.*?</\1>|<dl class=\"headers\">.*?</dl>", "", html, flags=re.S
        )
        words = OPERATORS_WORDS.findall(text_of(prose))
        assert words == [], path


@pytest.mark.usefixtures("catalogue")
async def test_catalogue_has_examples_and_none_of_hookfasts_own_types(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    async with customer(app, client, await new_tenant(client)) as visitor:
        listed = await visitor.get("/portal/event-types")
        assert "order.refund.created" in listed.text
        assert "hookfast." not in text_of(listed.text)
        assert '"x_1"' in await shown(visitor, "/portal/event-types/order.refund.created")
        example = await visitor.get("/portal/event-types/order.refund.created/example")
        assert example.text.startswith("<pre")
        assert (
            await visitor.get("/portal/event-types/hookfast.endpoint.disabled")
        ).status_code == 404
        assert (await visitor.get("/portal/event-types/no.such.type")).status_code == 404


async def test_endpoint_is_paused_resumed_switched_on_rotated_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    own, api = OWN.format(**shop), f"/endpoints/{shop['endpoint_id']}"
    async with customer(app, client, shop["tenant_id"]) as visitor:
        assert "Messages wait until you resume it" in text_of(
            await visitor.submit(f"{own}/pause", back=own)
        )
        await visitor.submit(f"{own}/resume", back=own)
        assert (await client.get(api)).json()["state"] == "enabled"
        await client.post(f"{api}/disable")
        page = await visitor.get(own)
        assert "Switch on" in text_of(page.text)
        assert 'class="panel state off"' in page.text  # on request, so nothing is wrong
        assert "order.invoice.paid not sent – 0 –" in text_of(page.text)
        assert "data-countdown" not in await shown(visitor, "/portal/activity")
        await visitor.submit(f"{own}/enable", back=own)
        assert (await client.get(api)).json()["state"] == "enabled"
        assert '<button class="main">Get a new secret' in (await visitor.get(f"{own}/rotate")).text
        rotated = await visitor.post(f"{own}/rotate", overlap="3600")
        assert "Your new secret" in text_of(rotated.text)
        assert re.search(r"whsec_[A-Za-z0-9+/=]{44}", rotated.text)
        assert (await visitor.post(f"{own}/rotate", overlap="5")).status_code == 422
        assert (await visitor.post(f"{own}/recover", span="5")).status_code == 422
        assert "No message failed" in text_of(await visitor.submit(f"{own}/recover", span="3600"))
        saved = await visitor.submit(
            f"{own}/edit",
            url="http://127.0.0.1:4/x",
            description="New name",
            signatures="hook",
            verification="none",
            headers="X-Team: one",
            plan="standard",
        )
        assert "New name" in text_of(saved)
        assert "X-Team" in text_of(saved)
        await visitor.submit(f"{own}/delete", back="/portal/endpoints")
        assert (await visitor.get(own)).status_code == 404


async def test_settings_that_the_form_lacks_are_kept(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    kept = {"circuit": {"failure_threshold": 9}, "metadata": {"team": "one"}}
    endpoint = await new_endpoint(client, tenant, verification="none", **kept)
    before = (await client.get(f"/endpoints/{endpoint}")).json()
    async with customer(app, client, tenant) as visitor:
        await visitor.submit(
            f"/portal/endpoints/{endpoint}/edit",
            url=before["url"],
            verification="none",
            plan=before["retry_plan"],
            signatures=before["signatures"],
            description="Named",
        )
    after = (await client.get(f"/endpoints/{endpoint}")).json()
    assert after | {"updated_at": 0} == before | {"description": "Named", "updated_at": 0}
