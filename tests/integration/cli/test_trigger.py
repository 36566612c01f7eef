"""`hookfast trigger`: signed samples to a source, to a server under development, to an endpoint."""

from __future__ import annotations

import json

import httpx2
import pytest

from hookfast.clock import utc_now
from hookfast.inbox import InboundRequest, RequestHeaders, provider
from hookfast.inbox.samples import SAMPLE_NAMES
from tests.integration.api.inbound import SECRET
from tests.integration.cli.conftest import Run
from tests.support.api_client import Json
from tests.support.receiver import Receiver, Request

pytestmark = pytest.mark.anyio

WITH_SECRET = {"HOOKFAST_TRIGGER_SECRET": SECRET}


@pytest.fixture
async def source(client: httpx2.AsyncClient, tenant: str) -> str:
    """A source with the provider GitHub."""
    form = {"name": "code", "provider": "github", "tenant_id": tenant, "secrets": [SECRET]}
    return str((await client.post("/sources", json=form)).json()["id"])


async def inbox(client: httpx2.AsyncClient) -> list[Json]:
    return list((await client.get("/inbox")).json()["data"])


async def test_each_sample_to_a_source_is_a_new_delivery(
    hookfast: Run, client: httpx2.AsyncClient, source: str
) -> None:
    ended = await hookfast(
        "trigger", "github.push", "--source", source, "--count", "2", env=WITH_SECRET
    )
    assert ended.code == 0, ended.err
    assert ended.out.count("→ 202 Accepted") == 2
    assert "X-GitHub-Event" in ended.out
    assert [one["event_type"] for one in await inbox(client)] == ["github.push.received"] * 2


async def test_same_id_is_accepted_once_by_a_source(
    hookfast: Run, client: httpx2.AsyncClient, source: str
) -> None:
    ended = await hookfast(
        *("trigger", "github.push", "--source", source, "--same-id", "--json"), env=WITH_SECRET
    )
    assert ended.code == 0, ended.err
    first, second = (json.loads(line) for line in ended.out.splitlines())
    assert (first["status"], second["status"]) == (202, 200)
    assert json.loads(second["answer"])["duplicate"] is True
    assert len(await inbox(client)) == 1


async def test_inbox_entry_is_printed_if_the_response_body_is_the_providers(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    form = {"tenant_id": tenant, "name": "x", "provider": "slack", "secrets": [SECRET]}
    source_id = (await client.post("/sources", json=form)).json()["id"]
    ended = await hookfast(
        *("trigger", "slack.slash_command.deploy", "--source", source_id), env=WITH_SECRET
    )
    assert ended.code == 0, ended.err
    (entry,) = await inbox(client)
    assert f"X-Hookfast-Inbox-Id: {entry['id']}" in ended.out


async def test_wrong_secret_exits_with_1_and_names_its_origin(
    hookfast: Run, client: httpx2.AsyncClient, source: str
) -> None:
    ended = await hookfast(
        *("trigger", "github.push", "--source", source, "--secret-file", "-"),
        stdin="another-secret-entirely\n",
    )
    assert ended.code == 1
    assert "→ 401" in ended.out
    assert "secret is from standard input" in ended.error_text
    assert "another-secret" not in ended.out + ended.err
    assert await inbox(client) == []


async def test_a_sample_of_another_provider_is_sent_to_no_source(
    hookfast: Run, client: httpx2.AsyncClient, source: str
) -> None:
    ended = await hookfast(
        "trigger", "stripe.payment_intent.succeeded", "--source", source, env=WITH_SECRET
    )
    assert (ended.code, "github.pull_request.opened" in ended.error_text) == (1, True)
    assert await inbox(client) == []


def verify(request: Request, name: str, secret: str) -> None:
    received = InboundRequest(
        method=request.method,
        url="",
        headers=RequestHeaders(request.raw_headers),
        body=request.body,
        caller="",
        at=utc_now(),
    )
    provider(name).verify(received, secrets=[secret], now=utc_now())


async def test_a_server_gets_what_the_provider_would_send(
    hookfast: Run, receiver: Receiver
) -> None:
    url = receiver.url("/hooks")
    ended = await hookfast(
        *("trigger", "gitea.push", "--to", url),
        env=WITH_SECRET | {"HOOKFAST_OPERATOR_KEY": "", "HOOKFAST_URL": "http://127.0.0.1:4"},
    )
    assert ended.code == 0, ended.err
    verify(receiver.requests[0], "gitea", SECRET)


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/status/401", "did not accept the signature"),
        ("/status/404", "has nothing at /status/404"),
        ("/redirect", "providers do not follow"),
        ("/status/500", "→ 500"),
    ],
)
async def test_response_that_is_not_2xx_exits_with_1(
    hookfast: Run, receiver: Receiver, path: str, word: str
) -> None:
    ended = await hookfast("trigger", "github.push", "--to", receiver.url(path), env=WITH_SECRET)
    assert ended.code == 1
    assert word in ended.error_text + ended.out
    assert len(receiver.requests) == 1


async def test_unsendable_sample_is_reported(hookfast: Run) -> None:
    nobody = await hookfast(
        "trigger", "github.push", "--to", "http://127.0.0.1:4/hooks", env=WITH_SECRET
    )
    assert (nobody.code, "Is it started?" in nobody.error_text) == (1, True)
    for url in ("http://[::1/hooks", "http://me@127.0.0.1/", "127.0.0.1/hooks"):
        nowhere = await hookfast("trigger", "github.push", "--to", url, env=WITH_SECRET)
        assert (nowhere.code, "it is not a URL" in nowhere.error_text) == (2, True), nowhere.err
    unsigned = await hookfast("trigger", "github.push", "--to", "http://127.0.0.1:4/hooks")
    assert (unsigned.code, "HOOKFAST_TRIGGER_SECRET" in unsigned.error_text) == (1, True)


async def test_an_endpoint_gets_a_test_with_the_data_of_the_sample(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    await client.put("/event-types/github.push.received", json={})
    form = {"tenant_id": tenant, "url": receiver.url("/hook"), "verification": "none"}
    endpoint = (await client.post("/endpoints", json=form)).json()["id"]
    ended = await hookfast("trigger", "github.push", "--endpoint", endpoint)
    assert ended.code == 0, ended.err
    [request] = receiver.requests
    body = json.loads(request.body)
    assert (body["type"], request.headers["x-hook-test"]) == ("github.push.received", "true")
    assert len(body["data"]["after"]) == 40


async def test_list_has_every_sample(hookfast: Run) -> None:
    listed = await hookfast("trigger", "--list", "--json", env={"HOOKFAST_OPERATOR_KEY": ""})
    assert [one["name"] for one in listed.json] == list(SAMPLE_NAMES)
    assert {"name": "github.push", "event_type": "github.push.received"} in listed.json


async def test_the_token_of_a_provider_is_not_shown(hookfast: Run, receiver: Receiver) -> None:
    """GitLab's token header is the secret itself."""
    ended = await hookfast(
        "trigger", "gitlab.push", "--to", receiver.url("/hooks"), env=WITH_SECRET
    )
    assert ended.code == 0, ended.err
    assert receiver.requests[0].headers["x-gitlab-token"] == SECRET
    assert SECRET not in ended.out + ended.err


@pytest.mark.parametrize("name", ["gitlab.push", "github.push"])
async def test_secret_of_several_lines_is_rejected_and_not_repeated(
    hookfast: Run, receiver: Receiver, name: str
) -> None:
    """GitLab's secret is a header, and the error about an invalid header once quoted it."""
    ended = await hookfast(
        *("trigger", name, "--to", receiver.url("/hooks"), "--secret-file", "-"),
        stdin="first line\nsecond line\n",
    )
    assert ended.code == 1
    assert "the secret from standard input is more than one line" in ended.error_text
    assert "second line" not in ended.out + ended.err
    assert receiver.requests == []


async def test_an_option_that_a_provider_lacks_is_named(hookfast: Run, receiver: Receiver) -> None:
    ended = await hookfast(
        "trigger", "generic.order.created", "--to", receiver.url("/hooks"), env=WITH_SECRET
    )
    assert ended.code == 1
    assert (
        "the options are not valid for the provider generic: signature_header: " in ended.error_text
    )
