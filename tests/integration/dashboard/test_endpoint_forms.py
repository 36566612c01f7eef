"""The forms of an endpoint, without script: settings, subscriptions, states, secret rotation."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.integration.dashboard.resources import EVENT_TYPE, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, tenant_visitor, text_of
from tests.support.api_client import event_type_maker

pytestmark = pytest.mark.anyio


async def test_new_endpoint_form_shows_the_secret_once(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    fields = {
        "url": "http://127.0.0.1:4/hook",
        "description": "Ledger",
        "events": "order.**\nuser.account.closed",
        "owner_emails": "ops@example.com",
        "verification": "none",
        "signatures": "standard",
        "plan": "custom",
        "own_plan": '{"delays_seconds": [1, 2]}',
        "max_in_flight": "3",
    }
    async with tenant_visitor(app, client, tenant) as visitor:
        wrong = await visitor.post("/dashboard/endpoints/new", **fields | {"max_in_flight": "many"})
        assert wrong.status_code == 422
        assert "this is not a whole number" in wrong.text
        assert 'value="Ledger"' in wrong.text  # the typed input is still there
        answer = await visitor.post("/dashboard/endpoints/new", **fields)
        assert answer.status_code == 200
        [secret] = re.findall(r"whsec_[A-Za-z0-9+/=]+", answer.text)
        [endpoint_id] = set(re.findall(r"ep_[0-9a-f]{32}", answer.text))
        page = await visitor.get(f"/dashboard/endpoints/{endpoint_id}")
        assert secret not in page.text
        assert "“user.account.closed”" in text_of(answer.text)  # which matches no event type
    stored = (await client.get(f"/endpoints/{endpoint_id}")).json()
    assert stored["tenant_id"] == tenant
    assert stored["retry_plan"] == {"delays_seconds": [1, 2]}
    assert (stored["max_in_flight"], stored["signatures"]) == (3, ["standard"])
    assert "order.**, user.account.closed" in page.text


async def test_settings_form_changes_only_what_differs(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, headers={"X-Own": "kept"})
    path = f"/dashboard/endpoints/{endpoint_id}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        fields = {
            "url": "http://127.0.0.1:4/hook",
            "description": "Renamed",
            "verification": "none",
            "signatures": ["hook", "standard"],
            "plan": "hourly",
            "timeout_seconds": "5",
        }
        rejected = await visitor.post(path, **fields | {"url": "ftp://example.com"})
        assert rejected.status_code == 422
        assert 'role="alert"' in rejected.text
        text = await visitor.submit(path, **fields)
        assert "The settings are saved." in text
        assert "Renamed" in text
        assert "Nothing changed." in await visitor.submit(path, **fields)
    entries = (await client.get("/audit", params={"resource_id": endpoint_id})).json()["data"]
    [change] = [entry for entry in entries if entry["action"] == "endpoint.update"]
    assert set(change["changes"]) == {"description"}


async def test_each_group_of_settings_is_edited_beside_its_value(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, headers={"X-Old": "a", "X-Kept": "b"})
    path = f"/dashboard/endpoints/{endpoint_id}"
    key = {"kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}
    encryption = {"jwk": key, "alg": "ECDH-ES+A256KW", "enc": "A256GCM"}
    groups: dict[str, tuple[dict[str, Any], str]] = {
        # the fields, and what the endpoint's page shows afterwards
        "description": ({"description": "Ledger"}, "Ledger"),
        "url": ({"url": "http://127.0.0.1:4/new", "verification": "none"}, "127.0.0.1:4/new"),
        "signatures": (
            {"signatures": ["hook"], "signature_hash": "sha512"},
            "hook “hook” with sha512",
        ),
        "encryption": ({"encryption": json.dumps(encryption)}, "ECDH-ES+A256KW with A256GCM"),
        "retries": (
            {"plan": "custom", "own_plan": '{"delays_seconds": [60]}', "timeout_seconds": "7"},
            "custom plan: 1 retry over 1 min an attempt may take 7 s",
        ),
        "limits": ({"max_in_flight": "3"}, "no rate limit, 3 in flight"),
        "circuit": (
            {"failure_threshold": "9", "probe_delays_seconds": "60, 120"},
            "opens after 9 failures in a row over at least 10 s its own rules",
        ),
        "networks": ({"allowed_networks": "127.0.0.0/8"}, "127.0.0.0/8"),
        "headers": ({"remove": "X-Old", "headers": "X-New: c: d"}, "X-Kept, X-New"),
        "owners": ({"owner_emails": "ops@example.com"}, "ops@example.com"),
    }
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(path)).text
        for name, (fields, shown) in groups.items():
            assert f'href="{path}/settings/{name}"' in page
            assert f'id="setting-{name}"' in page
            form = (await visitor.get(f"{path}/settings/{name}")).text
            assert f'action="{path}/settings/{name}"' in form
            saved = await visitor.post(f"{path}/settings/{name}", **fields)
            assert saved.headers["location"] == f"{path}#setting-{name}", saved.text
            text = text_of((await visitor.get(path)).text)
            assert ": saved." in text
            assert shown in text
        assert (await visitor.get(f"{path}/settings/nothing")).status_code == 404
        # the form shows what is stored, so that saving it again changes nothing
        for name in ("circuit", "encryption", "networks"):
            form = (await visitor.get(f"{path}/settings/{name}")).text
            again = dict(re.findall(r'<input type="text" name="(\w+)" value="([^"]*)"', form))
            areas = re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', form)
            kept = again | {each: unescape(value) for each, value in areas}
            assert "Nothing changed." in await visitor.submit(f"{path}/settings/{name}", **kept)
        for name, fields, label in (
            ("circuit", {"failure_threshold": "many"}, "Failures in a row that open it"),
            ("circuit", {"probe_delays_seconds": "soon"}, "Seconds before each probe"),
            ("headers", {"headers": "X-New"}, "Custom headers"),
            ("networks", {"allowed_networks": "everywhere"}, "Allowed networks, entry 1"),
            ("encryption", {"encryption": "{"}, "Encryption"),
        ):
            wrong = await visitor.post(f"{path}/settings/{name}", **fields)
            assert wrong.status_code == 422
            assert 'role="alert"' in wrong.text
            assert f"<strong>{label}</strong>:" in wrong.text
            assert unescape(next(iter(fields.values()))) in unescape(wrong.text)  # still there
        await visitor.submit(f"{path}/settings/circuit")
        await visitor.submit(f"{path}/settings/encryption")
    stored = (await client.get(f"/endpoints/{endpoint_id}")).json()
    assert (stored["circuit"], stored["encryption"]) == ({}, None)
    assert set(stored["headers"]) == {"X-Kept", "X-New"}
    entries = (await client.get("/audit", params={"resource_id": endpoint_id})).json()["data"]
    changed = [set(each["changes"]) for each in entries if each["action"] == "endpoint.update"]
    assert {"max_in_flight"} in changed  # no form touches the settings of another
    assert len(changed) == len(groups) + 2


async def test_polled_endpoint_has_no_settings_of_requests(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    created = await client.post("/endpoints", json={"tenant_id": tenant, "mode": "poll"})
    path = f"/dashboard/endpoints/{created.json()['id']}"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(path)).text
        assert f"{path}/settings/url" not in page
        assert (await visitor.get(f"{path}/settings/url")).status_code == 404
        answer = await visitor.submit(f"{path}/settings/description", description="Nightly")
        assert "Name: saved." in answer


async def test_members_removed_from_a_custom_retry_plan_are_deleted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    plan = {"delays_seconds": [1, 2], "jitter": 0.5, "retry_on": "transient"}
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, retry_plan=plan)
    fields = {
        "url": "http://127.0.0.1:4/hook",
        "verification": "none",
        "signatures": ["hook", "standard"],
        "plan": "custom",
    }
    async with tenant_visitor(app, client, tenant) as visitor:
        path = f"/dashboard/endpoints/{endpoint_id}/settings"
        for kept in ({"delays_seconds": [1, 2], "jitter": 0.5}, {"delays_seconds": [3]}):
            text = await visitor.submit(path, **fields, own_plan=json.dumps(kept))
            assert "The settings are saved." in text
            stored = (await client.get(f"/endpoints/{endpoint_id}")).json()["retry_plan"]
            assert stored == kept
        await visitor.submit(path, **fields | {"plan": "stepped"})
    assert (await client.get(f"/endpoints/{endpoint_id}")).json()["retry_plan"] == "stepped"


async def test_untouched_settings_are_saved_unchanged(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    numbers = {"timeout_seconds": 5, "rate_limit_per_second": 0.1234567, "max_in_flight": 1_000}
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, **numbers)
    path = f"/dashboard/endpoints/{endpoint_id}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get(path)).text
        shown = {name: re.search(rf'name="{name}" value="([^"]*)"', page) for name in numbers}
        fields = {name: found[1] for name, found in shown.items() if found is not None}
        assert fields == {
            "timeout_seconds": "5",
            "rate_limit_per_second": "0.1234567",
            "max_in_flight": "1000",
        }
        kept = {
            "url": "http://127.0.0.1:4/hook",
            "verification": "none",
            "signatures": ["hook", "standard"],
            "plan": "hourly",
        }
        assert "Nothing changed." in await visitor.submit(path, **fields, **kept)


async def test_subscription_is_added_switched_off_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id, other = [await new_endpoint(client, tenant) for _ in range(2)]
    path = f"/dashboard/endpoints/{endpoint_id}"
    async with tenant_visitor(app, client, tenant) as visitor:
        text = await visitor.submit(
            f"{path}/subscriptions", events="user.account.closed, user.team.*", back=path
        )
        assert "Subscribed to user.account.closed, user.team.*." in text
        # the first in the notice, all of them beside the patterns
        text = text_of(text)
        assert (text.count("“user.account.closed”"), text.count("“user.team.*”")) == (2, 1)
        wrong = await visitor.post(f"{path}/subscriptions", events="User", back=path)
        assert wrong.status_code == 422
        assert 'role="alert"' in wrong.text
        listed = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
        newest = listed.json()["data"][0]
        assert newest["events"] == ["user.account.closed", "user.team.*"]
        own = f"{path}/subscriptions/{newest['id']}"
        assert "is off" in await visitor.submit(f"{own}/switch", back=path)
        assert not (await client.get(f"/subscriptions/{newest['id']}")).json()["active"]
        assert "is on" in await visitor.submit(f"{own}/switch", active="yes", back=path)
        form = (await visitor.get(f"{own}/edit")).text
        assert 'value="user.account.closed, user.team.*"' in form
        edited = await visitor.submit(
            f"{own}/edit", events="user.team.*", payload="thin", ordered="yes"
        )
        assert "The subscription is saved." in edited
        changed = (await client.get(f"/subscriptions/{newest['id']}")).json()
        assert (changed["events"], changed["payload"]) == (["user.team.*"], "thin")
        assert changed["ordered"]
        assert "thin, in order" in text_of((await visitor.get(path)).text)
        assert (await visitor.post(f"{own}/edit", events="User")).status_code == 422
        assert "Delete this subscription?" in (await visitor.get(f"{own}/delete")).text
        # it cannot be reached through another endpoint
        through = f"/dashboard/endpoints/{other}/subscriptions/{newest['id']}"
        assert (await visitor.get(f"{through}/delete")).status_code == 404
        assert (await visitor.post(f"{through}/delete")).status_code == 404
        assert "is deleted" in await visitor.submit(f"{own}/delete")
    assert (await client.get(f"/subscriptions/{newest['id']}")).status_code == 404


async def test_content_filter_is_checked_saved_shown_and_removed(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant, description="Accounting")
    await event_type_maker(client)(EVENT_TYPE)
    for amount in (5, 100, 1):
        event = {"type": EVENT_TYPE, "data": {"amount": amount}, "tenant_id": tenant}
        assert (await client.post("/events", json=event)).status_code == 202
    path = f"/dashboard/endpoints/{endpoint_id}"
    typed = {"events": EVENT_TYPE, "filter": '{"amount": {"$gte": 5}}', "back": path}
    wrong = typed | {"filter": '{"amount": {"$gtee": 5}}'}
    async with tenant_visitor(app, client, tenant) as visitor:
        for target in ("/subscriptions", "/subscriptions/preview"):
            answer = await visitor.post(path + target, **wrong)
            assert answer.status_code == 422
            assert "did you mean `$gte`?" in unescape(answer.text)
            assert "$gtee&#34;: 5" in answer.text  # still there, and marked
            assert 'name="filter" rows="3" aria-invalid="true"' in answer.text
        for other in ("{", "[]", "5"):
            answer = await visitor.post(f"{path}/subscriptions", **typed | {"filter": other})
            assert answer.status_code == 422, other
        once = {"once": "a" * 22}
        for _ in range(2):  # it stores nothing, so it can be repeated
            checked = await visitor.post(f"{path}/subscriptions/preview", **typed | once)
            assert checked.status_code == 200
            assert "2 of the last 3 events of these types match." in text_of(checked.text)
            assert 'value="order.invoice.paid"' in checked.text
        listed = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
        known = len(listed.json()["data"])
        assert "Subscribed to" in await visitor.submit(f"{path}/subscriptions", **typed)
        listed = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
        assert len(listed.json()["data"]) == known + 1
        newest = listed.json()["data"][0]
        assert newest["filter"] == {"amount": {"$gte": 5}}
        assert '{"amount":{"$gte":5}}' in unescape((await visitor.get(path)).text)
        own = f"{path}/subscriptions/{newest['id']}"
        page = text_of((await visitor.get(f"{own}/edit")).text)
        assert '"$gte": 5' in page
        assert "2 of the last 3 events of these types match." in page
        changed = typed | {"filter": '{"amount": 1}', "payload": "full"}
        checked = await visitor.post(f"{own}/preview", **changed)
        assert "1 of the last 3 events of these types matches." in text_of(checked.text)
        assert f'<a href="{path}">Accounting</a>' in checked.text  # not the endpoint's id
        assert (await visitor.post(f"{own}/edit", **wrong)).status_code == 422
        assert "is saved" in await visitor.submit(f"{own}/edit", **changed)
        assert "Nothing changed" in await visitor.submit(f"{own}/edit", **changed)
        other = changed | {"filter": '{"amount": true}'}
        assert "is saved" in await visitor.submit(f"{own}/edit", **other)
        del other["filter"]  # a form from before there was the field
        assert "Nothing changed" in await visitor.submit(f"{own}/edit", **other)
        assert "is saved" in await visitor.submit(f"{own}/edit", **other, filter="")
    assert (await client.get(f"/subscriptions/{newest['id']}")).json()["filter"] is None


async def test_endpoint_is_paused_resumed_disabled_enabled_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}"

    async def state() -> str:
        found: str = (await client.get(f"/endpoints/{endpoint_id}")).json()["state"]
        return found

    async with tenant_visitor(app, client, tenant) as visitor:
        assert "is paused" in await visitor.submit(f"{path}/pause", back=path)
        assert await state() == "paused"
        assert "is resumed" in await visitor.submit(f"{path}/resume", back=path)
        confirmation = await visitor.get(f"{path}/disable")
        assert "Disable this endpoint?" in confirmation.text
        assert await state() == "enabled"
        assert "is disabled" in await visitor.submit(f"{path}/disable")
        assert await state() == "disabled"
        # a conflict is shown on the page with the button
        text = await visitor.submit(f"{path}/pause", back=path)
        assert "The endpoint is disabled, so nothing is sent to it." in text
        text = await visitor.submit(f"{path}/enable", back=path, redrive="yes")
        assert "this job sends its dead letters again" in text
        assert await state() == "enabled"
        await visitor.submit(f"{path}/delete")
    assert (await client.get(f"/endpoints/{endpoint_id}")).status_code == 404


async def test_secret_is_rotated_with_the_chosen_overlap(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}/rotate-secret"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "Overlap" in (await visitor.get(path)).text
        rejected = await visitor.post(path, overlap="99", back="/dashboard/endpoints")
        assert rejected.headers["location"] == "/dashboard/endpoints"
        answer = await visitor.post(path, overlap="3600")
        assert re.search(r"whsec_[A-Za-z0-9+/=]{40}", answer.text)
        assert answer.headers["cache-control"] == "no-store"
    secrets = (await client.get(f"/endpoints/{endpoint_id}")).json()["secrets"]
    assert len(secrets) == 2


async def test_buttons_beside_wrong_test_data_return_to_the_endpoint(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}"
    async with tenant_visitor(app, client, tenant) as visitor:
        for button in ("pause", "resume", "enable"):
            if button == "enable":
                await visitor.post(f"{path}/disable")
            tested = await visitor.post(f"{path}/test", type=EVENT_TYPE, data="{", back=path)
            assert tested.status_code == 422
            [fields] = [
                fields for _, to, fields in Forms(tested.text).found if to == f"{path}/{button}"
            ]
            answer = await visitor.post(f"{path}/{button}", back=fields["back"])
            assert answer.headers["location"] == path


async def test_rejected_subscription_keeps_the_typed_input(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}"
    fields = {"events": "user.team.*, User.Account", "payload": "thin", "back": path}
    async with tenant_visitor(app, client, tenant) as visitor:
        rejected = await visitor.post(f"{path}/subscriptions", **fields)
        assert rejected.status_code == 422
        assert 'value="user.team.*, User.Account"' in rejected.text
        assert 'value="thin" selected' in rejected.text
        assert "Events/1: a pattern is an event type" in text_of(rejected.text)
        assert 'aria-describedby="events-error"' in rejected.text


async def test_mapping_is_previewed_saved_and_corrected(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await event_type_maker(client)(EVENT_TYPE, schema={"examples": [{"id": "in_7"}]})
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint_id}"
    wrong = {"events": EVENT_TYPE, "payload": "mapped", "mapping": "{text: <b>"}
    async with tenant_visitor(app, client, tenant) as visitor:
        rejected = await visitor.post(f"{path}/subscriptions", back=path, **wrong)
        assert rejected.status_code == 422
        assert "there is an error at character 8" in text_of(rejected.text)
        assert 'aria-describedby="mapping-error"' in rejected.text
        assert f'value="{EVENT_TYPE}"' in rejected.text
        assert "{text: &lt;b&gt;</textarea>" in rejected.text

        # lines, as a browser sends them
        fields = wrong | {"mapping": "{\r\n text: data.id}"}
        text = await visitor.submit(f"{path}/subscriptions", back=path, **fields)
        assert f"Subscribed to {EVENT_TYPE}." in text
        listed = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
        subscription = listed.json()["data"][0]
        assert subscription["mapping"] == "{\n text: data.id}"

        own = f"{path}/subscriptions/{subscription['id']}"
        edit, preview = f"{own}/edit", f"{own}/preview-mapping"
        fields = wrong | {"mapping": "{title: data.id}", "type": EVENT_TYPE}
        for _ in range(2):  # the answer is reloaded
            previewed = await visitor.post(preview, **fields, once="p" * 22)
            assert previewed.status_code == 200
            assert '{"title":"in_7"}' in text_of(previewed.text)
        assert (await client.get(f"/subscriptions/{subscription['id']}")).json() == subscription
        failed = await visitor.post(preview, **fields | {"mapping": "data.none"})
        assert failed.status_code == 422
        assert "The mapping makes null of this event" in text_of(failed.text)
        assert "Not saved" not in failed.text

        assert "is saved" in await visitor.submit(edit, **fields)
        changed = (await client.get(f"/subscriptions/{subscription['id']}")).json()
        assert changed["mapping"] == "{title: data.id}"
        # the payload full leaves the mapping's text in the form, where it does no harm
        assert "is saved" in await visitor.submit(edit, **fields | {"payload": "full"})
        changed = (await client.get(f"/subscriptions/{subscription['id']}")).json()
        assert (changed["payload"], changed["mapping"]) == ("full", None)
