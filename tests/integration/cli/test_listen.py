"""`hookfast listen`: events reach a server on this machine signed and once each, also when the
service or the server restarts."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select
from standardwebhooks.webhooks import Webhook

from hookfast.settings.settings import Settings
from hookfast.storage.tables import Event
from tests.e2e.service_process import NO_TLS, environment, free_ports
from tests.integration.api.inbound import signed
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import OPERATOR_KEY, Json
from tests.support.api_server import ApiServer, served_on
from tests.support.forked_command import ForkedCommand, start_forked
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: the command does not see the database, and the stream is tested on both."""
    return sqlite_url


class Listening:
    """A command that listens, and the JSON lines it prints."""

    def __init__(self, process: ForkedCommand) -> None:
        self._process = process
        self.lines: list[Json] = []

    async def until(self, what: str, count: int = 1) -> list[Json]:
        """Return the lines of this kind, once there are `count`."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while len(found := [line for line in self.lines if line["what"] == what]) < count:
                line = await self._process.stdout.readline()
                assert line, "it ended"
                self.lines.append(json.loads(line))
        return found

    async def interrupt(self) -> Json:
        """Send Ctrl-C, and return the last line, which has the totals."""
        self._process.send_signal(signal.SIGINT)
        [found] = await self.until("sum")
        assert await self._process.wait() == 0
        return found

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()


Listen = Callable[..., AbstractAsyncContextManager[Listening]]


@pytest.fixture
def listen(service_environment: dict[str, str], tmp_path: Path) -> Listen:
    """`async with listen("--forward-to", url) as listening:` once it is connected."""
    return _listener(service_environment, tmp_path)


def _listener(env: dict[str, str], folder: Path) -> Listen:
    @asynccontextmanager
    async def start(*arguments: str, **more: str) -> AsyncIterator[Listening]:
        command = ("listen", "--json", *arguments)
        process = await start_forked(command, folder=folder, env=env | more)
        listening = Listening(process)
        try:
            await listening.until("connected")
            yield listening
        finally:
            await listening.kill()

    return start


async def emit(client: httpx2.AsyncClient, tenant: str, count: int = 1) -> list[str]:
    events = [
        {"type": TYPE, "tenant_id": tenant, "data": {"n": n, "ü": "\u2028"}} for n in range(count)
    ]
    answer = await client.post("/events/batch", json={"events": events})
    return [str(item["id"]) for item in answer.json()["data"]]


def ids(lines: list[Json]) -> list[Any]:
    return [line["id"] for line in lines]


async def test_events_come_in_order_byte_for_byte_and_signed(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver, served: ApiServer
) -> None:
    async with listen("--forward-to", receiver.url("/hooks")) as listening:
        emitted = await emit(client, tenant, 5)
        lines = await listening.until("event", 5)
        [first] = await listening.until("listening")
        last = await listening.interrupt()
    assert ids(lines) == [one.message_id for one in receiver.requests] == emitted
    assert {line["status"] for line in lines} == {200}
    assert (last["events"], last["accepted"], last["failed"], last["gaps"]) == (5, 5, 0, 0)
    async with served.context.database.read() as connection:
        stored = {
            row.id: row.body
            for row in await connection.execute(
                select(Event.__table__.c.id, Event.__table__.c.body)
            )
        }
    for request in receiver.requests:
        assert request.body == stored[request.message_id]
        assert request.headers["x-hook-topic"] == TYPE
        assert request.headers["x-hook-signature"].startswith("sha256=")
        Webhook(first["secret"]).verify(request.body, dict(request.headers))


async def test_configured_secret_is_used_and_not_shown(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    own = {"HOOKFAST_LISTEN_SECRET": SECRET}
    async with listen("--forward-to", receiver.url(), **own) as listening:
        await emit(client, tenant)
        await listening.until("event")
        await listening.interrupt()
    assert SECRET not in json.dumps(listening.lines)
    [request] = receiver.requests
    Webhook(SECRET).verify(request.body, dict(request.headers))


async def test_listen_continues_at_the_saved_position(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver, tmp_path: Path
) -> None:
    arguments = ("--forward-to", receiver.url(), "--resume", str(tmp_path / "place.json"))
    async with listen(*arguments) as listening:
        emitted = await emit(client, tenant, 2)
        await listening.until("event", 2)
        last = await listening.interrupt()
    emitted += await emit(client, tenant, 3)
    async with listen(*arguments) as listening:
        await listening.until("event", 3)
        await listening.interrupt()
    assert [one.message_id for one in receiver.requests] == emitted
    # a cursor, an event and a time give the same position
    for since in (last["cursor"], emitted[1]):
        async with listen("--since", since) as listening:
            assert ids(await listening.until("event", 3)) == emitted[2:]
    async with listen("--since", "1h") as listening:
        assert ids(await listening.until("event", 5)) == emitted


async def test_an_event_waits_for_the_server_to_come_up(
    listen: Listen, client: httpx2.AsyncClient, tenant: str
) -> None:
    [port] = free_ports(1)
    async with listen("--forward-to", f"http://127.0.0.1:{port}/hooks") as listening:
        emitted = await emit(client, tenant, 2)
        [*_, again] = await listening.until("again")
        assert "nothing answers at" in again["error"]
        async with Receiver(port=port) as receiver:
            assert ids(await listening.until("event", 2)) == emitted
            last = await listening.interrupt()
        assert [one.message_id for one in receiver.requests] == emitted
    assert (last["accepted"], last["failed"]) == (2, 0)


async def test_failed_event_is_retried_only_with_retry(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    async with listen("--forward-to", receiver.url("/status/500")) as listening:
        await emit(client, tenant, 2)
        lines = await listening.until("event", 2)
        last = await listening.interrupt()
    assert [line["status"] for line in lines] == [500, 500]
    assert (last["accepted"], last["failed"]) == (0, 2)
    assert len(receiver.requests) == 2
    async with listen("--forward-to", receiver.url("/fail-first/1"), "--retry", "1") as listening:
        [event_id] = await emit(client, tenant)
        [line] = await listening.until("event")
        await listening.interrupt()
    assert line["status"] == 200
    assert [one.headers["x-hook-attempt"] for one in receiver.requests_for(event_id)] == ["1", "2"]


async def test_raw_payload_forwards_the_providers_request_unchanged(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver, served: ApiServer
) -> None:
    form = {"tenant_id": tenant, "name": "store", "provider": "github", "secrets": [SECRET]}
    source = (await client.post("/sources", json=form)).json()
    body = b'{"zen": "caf\xc3\xa9",  "spaced":1}'
    chosen = ("--source", source["id"], "--payload", "raw")
    async with listen("--forward-to", receiver.url(), *chosen) as listening:
        await emit(client, tenant)
        async with httpx2.AsyncClient(
            base_url=served.url, trust_env=False, verify=NO_TLS
        ) as provider:
            headers, _ = signed(body, secret=SECRET)
            answer = await provider.post(f"/in/{source['id']}", content=body, headers=headers)
            assert answer.status_code == 202, answer.text
        [line] = await listening.until("event")
        await listening.interrupt()
    assert line["type"].startswith("github.")
    [request] = receiver.requests
    assert request.body == body
    assert "x-github-event" in request.headers
    assert "x-hub-signature-256" not in request.headers


async def test_concurrent_events_are_printed_in_order(
    listen: Listen, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    url = receiver.url("/slow/0.05")
    async with listen("--forward-to", url, "--concurrency", "4") as listening:
        emitted = await emit(client, tenant, 8)
        assert ids(await listening.until("event", 8)) == emitted
    assert 1 < receiver.most_in_flight <= 4


async def test_listen_filters_by_patterns_and_tenant(
    listen: Listen, client: httpx2.AsyncClient, tenant: str
) -> None:
    await client.put("/event-types/order.invoice.sent", json={})
    chosen = ("--tenant", tenant, "--events", "*.*.sent", "--events", "stock.**")
    async with listen(*chosen) as listening:
        await emit(client, tenant)
        answer = await client.post("/events", json={"type": "order.invoice.sent", "data": 1})
        [line] = await listening.until("event")
    assert line["id"] == answer.json()["id"]
    assert "status" not in line  # there is no server to forward to


async def test_impossible_options_are_reported_in_sentences(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    far = await hookfast("listen", "--forward-to", "http://1.1.1.1/hooks")
    assert far.code == 1
    assert "--allow-remote" in far.error_text
    key = await client.post(f"/tenants/{tenant}/api-keys", json={"scope": "emit", "name": "x"})
    narrow = {"HOOKFAST_API_KEY": key.json()["key"]}
    failed = await hookfast("listen", "--forward-to", receiver.url(), env=narrow)
    assert failed.code == 1
    assert "yours is emit" in failed.error_text
    nowhere = await hookfast("listen", "--resume", "no/such/folder/place.json")
    assert nowhere.code == 1
    assert "place.json cannot be written" in nowhere.error_text
    nobody = await hookfast("listen", "--url", f"http://127.0.0.1:{free_ports(1)[0]}")
    assert nobody.code == 1
    assert "There is no Hookfast at" in nobody.error_text


async def test_printed_lines_show_the_response(
    service_environment: dict[str, str],
    client: httpx2.AsyncClient,
    tenant: str,
    receiver: Receiver,
    tmp_path: Path,
) -> None:
    process = await start_forked(
        ("listen", "--forward-to", receiver.url(), "--since", "1h"),
        folder=tmp_path,
        env=service_environment,
    )
    assert process.stdout is not None
    [event_id] = await emit(client, tenant)
    async with asyncio.timeout(PATIENCE):
        line = (await process.stdout.readline()).decode()
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert f"{TYPE}  {event_id}  → 200  " in line
    assert "Requests are signed with whsec_" in said.decode()
    assert "1 event: 1 accepted, 0 failed." in said.decode()
    assert "--since " in said.decode()
    assert process.returncode == 0


async def test_service_restart_neither_loses_nor_repeats_events(
    settings: Settings, receiver: Receiver, tmp_path: Path
) -> None:
    """The service is stopped while events are being sent, and another one takes over its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    env = environment() | {"HOOKFAST_URL": url, "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY}
    emitted: list[str] = []
    with listener:
        async with served_on(settings, listener), _client(url) as client:
            await client.put(f"/event-types/{TYPE}", json={})
            tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
            listening = _listener(env, tmp_path)("--forward-to", receiver.url("/slow/0.01"))
            following = await listening.__aenter__()
            emitted += await emit(client, tenant, 40)
            await receiver.wait_for(5)
        await following.until("lost")
        async with served_on(settings, listener), _client(url) as client:
            emitted += await emit(client, tenant, 40)
            lines = await following.until("event", 80)
            await listening.__aexit__(None, None, None)
    assert ids(lines) == emitted
    assert [one.message_id for one in receiver.requests] == emitted


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=f"{url}/v1",
        headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        trust_env=False,
        verify=NO_TLS,
    )
