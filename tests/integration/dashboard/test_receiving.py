"""The pages of sources and the inbox."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from hookfast.inbox import PROVIDERS
from hookfast.storage.database.engine import Database
from tests.integration.api.inbound import post, signed
from tests.integration.dashboard.resources import new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of
from tests.support.seed_inbox import seed_entry

pytestmark = pytest.mark.anyio

PUSH = {"ref": "refs/heads/main", "size": 1.0}


async def new_source(visitor: Visitor, **fields: str) -> tuple[str, str]:
    """Create a source. Return its id without the prefix, and the page that shows its secret."""
    form = {"name": "GitHub", "provider": "github", "fact_window_seconds": "86400"}
    answer = await visitor.post("/dashboard/sources/new", **form | fields)
    assert answer.status_code == 200, text_of(answer.text)
    return answer.text.partition('href="/dashboard/sources/src_')[2][:32], answer.text


async def test_source_is_created_used_rotated_disabled_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        empty = (await visitor.get("/dashboard/sources")).text
        assert "No sources yet" in empty
        titles = sorted((one.title for one in PROVIDERS.values()), key=str.lower)
        assert f"({', '.join(titles)})" in text_of(empty)
        form = (await visitor.get("/dashboard/sources/new")).text
        assert '<option value="github" selected>GitHub</option>' in form
        rest, shown = await new_source(visitor)
        source_id = f"src_{rest}"
        base = f"/dashboard/sources/{source_id}"
        secret = shown.partition('id="secret">')[2].partition("<")[0]
        assert len(secret) >= 16
        assert secret not in (await visitor.get(base)).text
        headers, body = signed(PUSH, secret=secret)
        assert (await post(client, source_id, headers, body)).status_code == 202
        assert (await post(client, source_id, headers, body)).status_code == 200
        rejected = await post(client, source_id, {"Content-Type": "application/json"}, b"{}")
        assert rejected.status_code == 401
        text = text_of((await visitor.get(base)).text)
        assert "Webhook URL for GitHub" in text
        assert "Accepted 1 last one now Duplicates 1" in text
        assert "Provider GitHub" in text
        listed = (await visitor.get("/dashboard/sources")).text
        assert '<a class="plain" href="/dashboard/sources?provider=github">GitHub</a>' in listed
        inbox = (await visitor.get("/dashboard/inbox")).text
        entry = inbox.partition('href="/dashboard/inbox/inb_')[2][:32]
        entry = text_of((await visitor.get(f"/dashboard/inbox/inb_{entry}")).text)
        assert "Duplicates 1, last" in entry

        rotated = await visitor.post(f"{base}/rotate-secret", overlap="0")
        new = rotated.text.partition('id="secret">')[2].partition("<")[0]
        assert new not in ("", secret)
        again, body = signed({"ref": "x"}, secret=secret)
        assert (await post(client, source_id, again, body)).status_code == 401

        assert "Disable this source?" in (await visitor.get(f"{base}/disable")).text
        await visitor.submit(f"{base}/disable")
        again, body = signed({"ref": "x"}, secret=new)
        assert (await post(client, source_id, again, body)).status_code == 404
        await visitor.submit(f"{base}/enable", back=base)
        assert (await post(client, source_id, again, body)).status_code == 202
        await visitor.submit(f"{base}/delete")
        assert (await visitor.get(base)).status_code == 404


async def test_source_settings_are_saved_and_invalid_ones_rejected(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        rest, _ = await new_source(visitor, event_types='{"github.push.received": "code.a.b"}')
        path = f"/dashboard/sources/src_{rest}/settings"
        fields = {
            "name": "All of GitHub",
            "allowed_networks": "192.30.252.0/22\n",
            "event_types": '{"github.issues.opened": "code.issue.opened"}',
            "fact_expression": "suggested",
            "fact_window_seconds": "60",
        }
        await visitor.submit(path, **fields)
        source = (await client.get(f"/sources/src_{rest}")).json()
        assert source["name"] == "All of GitHub"
        assert source["allowed_networks"] == ["192.30.252.0/22"]
        # a name that was removed from the form is deleted, not merged
        assert source["event_types"] == {"github.issues.opened": "code.issue.opened"}
        assert source["idempotency"] == {"expression": "suggested", "window_seconds": 60}
        for wrong, text in (
            ({"options": "{x"}, "this is not JSON"),
            ({"options": "[1]"}, "must be a JSON object, such as"),
            ({"allowed_networks": "all of them"}, "Allowed networks, entry 1"),
            ({"fact_window_seconds": "long"}, "this is not a whole number"),
        ):
            answer = await visitor.post(path, **fields | wrong)
            assert answer.status_code == 422
            assert text in text_of(answer.text)
        assert (await client.get(f"/sources/src_{rest}")).json() == source


async def test_new_source_requires_the_secret_that_its_provider_creates(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        form = {"name": "Stripe", "provider": "stripe", "fact_window_seconds": "1"}
        rejected = await visitor.post("/dashboard/sources/new", **form)
        assert rejected.status_code == 422
        assert "stripe creates the secret" in text_of(rejected.text)
        given = "whsec_given_by_stripe_0123456789"
        created = await visitor.post("/dashboard/sources/new", secrets=given, **form)
        assert created.status_code == 200
        assert given not in created.text


async def test_inbox_entry_whose_body_is_not_json_is_shown_as_text(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    async with tenant_visitor(app, client, await new_tenant(client)) as visitor:
        rest, shown = await new_source(visitor)
        secret = shown.partition('id="secret">')[2].partition("<")[0]
        headers, body = signed("<b>f\xfcnf</b>".encode("latin-1"), secret=secret)
        headers["Content-Type"] += "; charset=iso-8859-1"
        stored = (await post(client, f"src_{rest}", headers, body)).json()
        page = await visitor.get(f"/dashboard/inbox/{stored['id']}")
        assert "&lt;b&gt;fünf&lt;/b&gt;" in page.text
        event = await visitor.get(f"/dashboard/events/{stored['event_id']}")
        assert "unparsed" in event.text
        assert "&lt;b&gt;fünf&lt;/b&gt;" in event.text
        assert (await visitor.get(f"/dashboard/inbox/{stored['id']}/body")).content == body


async def test_inbox_entry_is_shown_downloaded_and_retried(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    kind = f"github.k{tenant[-8:]}.received"  # unique, because all tests share the catalogue
    schema = {"type": "object", "required": ["size"]}
    await client.put(f"/event-types/{kind}", json={"schema": schema})
    async with tenant_visitor(app, client, tenant) as visitor:
        rest, shown = await new_source(visitor, event_types=f'{{"github.push.received": "{kind}"}}')
        secret = shown.partition('id="secret">')[2].partition("<")[0]
        headers, body = signed(b'{"ref":"<b>","price":1.50}', secret=secret)
        assert (await post(client, f"src_{rest}", headers, body)).status_code == 202
        listed = await visitor.get("/dashboard/inbox", params={"status": "failed"})
        path = f"/dashboard/inbox/inb_{listed.text.partition('/dashboard/inbox/inb_')[2][:32]}"
        page = await visitor.get(path)
        assert "size" in text_of(page.text)
        assert "&lt;b&gt;" in page.text
        assert "price&#34;: 1.50" in page.text
        assert headers["X-Hub-Signature-256"] not in page.text
        download = await visitor.get(f"{path}/body")
        assert download.content == body
        assert download.headers["content-disposition"].startswith("attachment")
        assert download.headers["content-type"] == "application/octet-stream"
        assert "sandbox" in download.headers["content-security-policy"]
        again = await visitor.submit(f"{path}/retry", back=path)
        assert 'class="flash bad"' in again
        await client.put(f"/event-types/{kind}", json={})
        assert "The event was created." in await visitor.submit(f"{path}/retry", back=path)
        assert "/dashboard/events/evt_" in (await visitor.get(path)).text


@pytest.mark.parametrize(
    ("content_type", "body", "shown"),
    [
        ("text/plain", "é€😀".encode() * 50_000, "é€😀é€😀"),
        ("application/json", b'{"a": "' + "😀".encode() * 100_000 + b'"}', "&#34;a&#34;: &#34;😀"),
        (
            "application/x-www-form-urlencoded",
            (b"a=" + b"%F0%9F%98%80" * 400 + b"&") * 100,
            "a = 😀",
        ),
    ],
)
async def test_long_inbox_entry_is_shown_up_to_a_length(
    app: FastAPI,
    client: httpx2.AsyncClient,
    database: Database,
    content_type: str,
    body: bytes,
    shown: str,
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        rest, _ = await new_source(visitor)
        entry = await seed_entry(
            database, f"src_{rest}", tenant, body=body, content_type=content_type
        )
        page = await visitor.get(f"/dashboard/inbox/{entry}")
        assert shown in page.text
        assert "Truncated" in page.text
        assert len(page.text) < 600_000
