"""`POST /in/…` for Slack and Twilio: challenges, signed URLs, and responses they act on."""

from __future__ import annotations

import json

import httpx2
import pytest

from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.inbox import provider
from hookfast.inbox.provider import Unsigned
from hookfast.inbox.samples import sample
from hookfast.storage.tables import InboxEntry
from tests.integration.api.inbound import SECRET, post
from tests.integration.api.shared.sources import count, make_source
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio


async def test_slack_challenge_is_verified_and_answered_without_an_event(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    slack = provider("slack")
    source = (await make_source(client, tenant, provider="slack"))["id"]
    request = sample("slack.app_mention", provider=slack, secret=SECRET, now=utc_now(), url="")
    body = json.dumps({"type": "url_verification", "challenge": "3eZb"}).encode()
    unsigned = await post(client, source, dict(request.headers), body)
    assert_problem(unsigned, 401, code="signature_mismatch")
    headers = slack.sign(
        Unsigned(body=body, content_type="application/json", url="", id="1", at=utc_now()),
        secret=SECRET,
    )
    answer = await post(client, source, headers | {"Content-Type": "application/json"}, body)
    assert (answer.status_code, answer.json()) == (200, {"challenge": "3eZb"})
    assert await count(context, InboxEntry, source_id=source) == 0


async def test_twilio_signature_covers_the_requested_url(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    source = (await make_source(client, tenant, provider="twilio"))["id"]
    url = str(client.base_url.join(f"/in/{source}"))
    for called, status in ((url, 200), (url + "x", 401)):
        request = sample(
            "twilio.message.delivered",
            provider=provider("twilio"),
            secret=SECRET,
            now=utc_now(),
            url=called,
        )
        answer = await post(client, source, dict(request.headers), request.body)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("name", "content_type", "body"),
    [
        ("slack.slash_command.deploy", None, ""),
        ("twilio.call.completed", "text/xml", "<Response/>"),
    ],
)
async def test_providers_that_act_on_the_response_get_an_empty_one(
    client: httpx2.AsyncClient,
    tenant: str,
    name: str,
    content_type: str | None,
    body: str,
) -> None:
    used = name.partition(".")[0]
    source = (await make_source(client, tenant, provider=used))["id"]
    url = str(client.base_url.join(f"/in/{source}"))
    request = sample(name, provider=provider(used), secret=SECRET, now=utc_now(), url=url)
    first, again = [
        await post(client, source, dict(request.headers), request.body) for _ in range(2)
    ]
    for answer in (first, again):
        assert answer.status_code == 200
        assert answer.text.endswith(body)
        assert answer.text.removesuffix(body) in ("", '<?xml version="1.0" encoding="UTF-8"?>')
        assert (answer.headers.get("Content-Type") or "").partition(";")[0] == (content_type or "")
    entry = (await client.get(f"/inbox/{first.headers['X-Hookfast-Inbox-Id']}")).json()
    assert entry["event_id"] == first.headers["X-Hookfast-Event-Id"]
    assert entry["duplicates"] == 1
    assert again.headers["X-Hookfast-Inbox-Id"] == entry["id"]
