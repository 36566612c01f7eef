"""Deliveries with tokens, passwords and client certificates, and the places in which none of these
may appear."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import pytest
import trustme

from hookfast.clock import utc_now
from hookfast.storage.endpoints import endpoints
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.platform import (
    Platform,
    everything_stored,
    history_text,
)
from tests.support.api_client import Json
from tests.support.certificates import client_identity, demanding_context, pem
from tests.support.oauth2_server import Client, OAuth2Server
from tests.support.receiver import Receiver
from tests.support.seed import EVENT_TYPE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

AUTHORITY = trustme.CA()
CLIENT_SECRET, WRONG_SECRET = "cl1ent-secret-4711", "wr0ng-secret-4711"
PASSWORD, TOKEN = "passw0rd-4711", "bearer-t0ken-4711"
OPTIONS = {"owner_emails": ["owner@acme.example"], "retry_plan": {"delays_seconds": [0.1]}}


@pytest.fixture
def server() -> Iterator[OAuth2Server]:
    with OAuth2Server(Client("hookfast", (CLIENT_SECRET,))) as server:
        yield server


@pytest.fixture
async def secure_receiver() -> AsyncIterator[Receiver]:
    """A receiver that demands a client certificate of the authority."""
    async with Receiver(ssl_context=demanding_context(AUTHORITY, clients=AUTHORITY)) as receiver:
        yield receiver


def oauth2(server: OAuth2Server, secret: str = CLIENT_SECRET) -> Json:
    return {
        "kind": "oauth2",
        "token_url": server.url,
        "client_id": "hookfast",
        "client_secret": secret,
    }


async def deliver(stack: Stack, platform: Platform, status: str, **members: object) -> list[str]:
    """Create an endpoint, and deliver an event to it until it has this status. Returns the ids of
    both; the endpoint gets no further events."""
    endpoint = await platform.endpoint(**OPTIONS | members)
    delivery = await platform.emit({})
    await stack.until_status(delivery, status)
    await stack.until_closed(delivery)
    subscription = endpoint["subscription"]["id"]
    await platform.client.patch(f"/subscriptions/{subscription}", json={"active": False})
    return [endpoint["id"], delivery]


async def test_what_a_receiver_repeats_of_its_request_and_settings_is_readable_nowhere(
    platform: Platform, stack: Stack
) -> None:
    signing = base64.b64encode(b"s1gning-secret-of-acme-4711").decode()
    headers = {"X-Api-Key": "ap1-key/4711", "X-Auth": "Token s3ssion-4711"}
    basic = {"kind": "basic", "username": "accounting", "password": PASSWORD}
    settings = f"<td>SECRET</td><td>whsec_{signing}</td><td>accounting</td>"
    platform.receiver.routes |= {
        "/repeat-all": "/repeat?status=500",
        "/settings": f"/raw/{quote(settings)}",
    }
    both = {"headers": headers, "authentication": basic, "secret": f"whsec_{signing}"}
    ended = [
        await deliver(stack, platform, status, url=platform.receiver.url(path), **both)
        for path, status in (("/repeat-all", "dead"), ("/settings", "delivered"))
    ]
    answers = ""
    for endpoint, delivery in ended:
        answers += (await platform.client.get(f"/deliveries/{delivery}")).text
        tested = await platform.client.post(
            f"/endpoints/{endpoint}/test", json={"type": EVENT_TYPE}
        )
        answers += tested.text
        kept = await platform.client.get(f"/tests/{tested.json()['message_id']}")
        answers += kept.text
    assert "X-Got-X-Auth" in answers
    assert "SECRET</td><td>whsec_***</td>" in answers
    sent = platform.receiver.requests[0].headers
    assert sent["x-api-key"] == headers["X-Api-Key"]
    pair = sent["authorization"].removeprefix("Basic ")
    needles = ["ap1-key", "s3ssion-4711", PASSWORD, pair, "accounting:", signing]
    assert not [needle for needle in needles if needle in answers]
    stored = await everything_stored(stack.database)
    assert ended[0][0] in stored
    assert not [needle for needle in needles if needle in stored]
    for _, delivery in ended:
        texts = await history_text(stack, delivery)
        assert not [needle for needle in needles if needle in texts]


async def test_no_credential_is_readable_in_answers_histories_logs_or_the_database(
    platform: Platform,
    stack: Stack,
    server: OAuth2Server,
    secure_receiver: Receiver,
    capfd: pytest.CaptureFixture[str],
) -> None:
    identity = client_identity(AUTHORITY)
    basic = {"kind": "basic", "username": "shop", "password": PASSWORD}
    bearer = {"kind": "bearer", "token": TOKEN}
    plain = platform.receiver
    both = await deliver(
        stack,
        platform,
        "delivered",
        url=secure_receiver.url("/fail-first/1"),
        authentication=oauth2(server),
        tls=identity | {"authorities": pem(AUTHORITY)},
    )
    ended = [
        both,
        # without a client certificate
        await deliver(
            stack,
            platform,
            "dead",
            url=secure_receiver.url(),
            authentication=bearer,
            tls={"authorities": pem(AUTHORITY)},
        ),
        await deliver(stack, platform, "delivered", authentication=basic),
        await deliver(stack, platform, "dead", url=plain.url("/status/401"), authentication=bearer),
        await deliver(stack, platform, "dead", authentication=oauth2(server, WRONG_SECRET)),
    ]
    assert len(secure_receiver.requests) == 2
    assert all(server.accepts(one.headers["authorization"]) for one in secure_receiver.requests)
    user = base64.b64encode(f"shop:{PASSWORD}".encode()).decode()
    sent = {request.headers["authorization"] for request in plain.requests}
    assert sent == {f"Basic {user}", f"Bearer {TOKEN}"}

    # replaced, so that there are two of a kind
    path = f"/endpoints/{both[0]}"
    second = client_identity(AUTHORITY)
    for member, form in (("authentication", bearer), ("tls", second)):
        changed = await platform.client.put(f"{path}/{member}", json=form)
        assert changed.status_code == 200, changed.text

    needles = [CLIENT_SECRET, WRONG_SECRET, PASSWORD, TOKEN, user, *server.tokens]
    for each in (identity, second):
        _, *lines, _ = each["private_key"].strip().splitlines()
        needles += ["PRIVATE KEY", *lines]
    assert len(server.tokens) == 1

    answers = changed.text
    for route in (
        *("/endpoints", "/events", "/deliveries", "/dead-letters", "/audit", "/subscriptions"),
        *(f"/endpoints/{endpoint}" for endpoint, _ in ended),
        *(f"/endpoints/{endpoint}/health" for endpoint, _ in ended),
        *(f"/deliveries/{delivery}" for _, delivery in ended),
    ):
        answer = await platform.client.get(route)
        assert answer.status_code == 200, route
        answers += answer.text
    assert "The token endpoint gave no access token" in answers
    assert "endpoint.set_tls" in answers
    assert not [needle for needle in needles if needle in answers]

    stored = await everything_stored(stack.database)
    assert both[0] in stored  # proof that the rows were read
    assert not [needle for needle in needles if needle in stored]

    for _, delivery in ended:
        texts = await history_text(stack, delivery)
        assert '"delivery_id"' in texts  # payloads are decoded, not base64
        assert not [needle for needle in needles if needle in texts]

    # the only thing that is logged about credentials: that an endpoint's cannot be opened
    broken = await swap_credentials(stack, platform, from_endpoint=both[0])
    await platform.emit({})
    logged = ""

    async def is_logged() -> bool:
        nonlocal logged
        logged += "".join(capfd.readouterr())
        return broken in logged

    await eventually(is_logged)
    assert not [needle for needle in needles if needle in logged]


async def swap_credentials(stack: Stack, platform: Platform, *, from_endpoint: str) -> str:
    """Create an endpoint with the credentials that were sealed for another one, so that they cannot
    be opened. Returns its id."""
    endpoint_id = str((await platform.endpoint())["id"])
    async with stack.database.write() as connection:
        row = await endpoints.get(connection, endpoint_id)
        other = await endpoints.get(connection, from_endpoint)
        assert row is not None
        assert other is not None
        values = {"credentials": other.credentials, "updated_at": utc_now()}
        assert await endpoints.change(connection, endpoint_id, seen=row.updated_at, values=values)
    return endpoint_id


async def test_a_new_credential_is_used_from_the_next_attempt(
    platform: Platform, stack: Stack
) -> None:
    first = {"kind": "bearer", "token": "first"}
    endpoint = await platform.endpoint("/status/503", authentication=first)
    delivery = await platform.emit({})
    await stack.until_attempts(delivery, 1)
    path = f"/endpoints/{endpoint['id']}/authentication"
    changed = await platform.client.put(path, json=first | {"token": "second"})
    assert changed.status_code == 200, changed.text
    platform.receiver.routes["/status/503"] = "/ok"
    await platform.client.post(f"/deliveries/{delivery}/resend")

    async def delivered() -> bool:
        return (await stack.row(delivery)).status == "delivered"

    await eventually(delivered)
    sent = [request.headers["authorization"] for request in platform.receiver.requests]
    assert (sent[0], sent[-1]) == ("Bearer first", "Bearer second")
