"""How streams stay open, and how they end."""

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest

from api.stream import feed_stream
from hookfast import byte_budget
from hookfast.clock import rfc3339, utc_now
from hookfast.settings.settings import Settings
from hookfast.storage.feed.cursor import Cursor
from tests.integration.api.stream.conftest import TYPE, Served, ids, serving
from tests.support.api_client import OPERATOR_KEY, assert_problem, development_settings
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_heartbeat_advances_a_quiet_stream(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reconnects after a quiet day need not start a day ago."""
    monkeypatch.setattr(feed_stream, "HEARTBEAT_SECONDS", 0.1)
    async with served.stream(events=["no.such.event"]) as stream:
        begun = Cursor.parse(stream.last_id or "")
        [event_id] = await served.emit(None)
        while not Cursor.parse(stream.last_id or "").position > begun.position:
            message = await stream.next()
            assert message is not None
            assert message.name is None
        last_id = stream.last_id
    async with served.stream(last_id=last_id) as stream:
        [later] = await served.emit(None)
        assert ids(await stream.events(1)) == [later]
    assert later != event_id


async def test_client_that_does_not_read_is_disconnected_and_can_resume(settings: Settings) -> None:
    impatient = {"max_unread_seconds": timedelta(seconds=1)}
    async with serving(settings.model_copy(update=impatient)) as served:
        await _does_not_read_and_resumes(served)


async def _does_not_read_and_resumes(served: Served) -> None:
    seats = served.context.stream_slots
    start = rfc3339(utc_now() - timedelta(minutes=1))
    emitted = [
        one for _ in range(8) for one in await served.emit(None, 5, data={"x": "x" * 200_000})
    ]
    _, port = served.url.rsplit(":", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port), limit=1_024)
    writer.write(
        f"GET /v1/stream?since={start} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {OPERATOR_KEY}\r\n\r\n".encode()
    )
    await reader.readuntil(b"retry:")  # the stream has started; no further byte is read
    async with asyncio.timeout(PATIENCE):
        while seats.taken:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)
    rest = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            rest = (rest + piece)[-16:]
    assert not rest.endswith(b"\r\n0\r\n\r\n")  # cut off, not ended
    writer.close()
    async with served.stream(since=start) as stream:
        assert ids(await stream.events(40)) == emitted


async def test_shutdown_ends_streams_cleanly(settings: Settings) -> None:
    async with serving(settings) as served, served.stream() as stream:
        emitted = await served.emit(None)
        assert ids(await stream.events(1)) == emitted
        served.server.should_exit = True
        # the response ended properly: httpx would raise for a broken connection
        while await stream.next() is not None:
            pass


async def test_open_streams_are_limited_per_tenant_and_in_total(
    database_url: str, tmp_path: Path
) -> None:
    settings = development_settings(database_url, tmp_path).model_copy(update={"max_streams": 4})
    async with serving(settings) as served:
        _, key = await served.tenant()
        async with served.stream(key), served.client(key) as client:
            answer = await client.get("/stream")
            assert_problem(answer, 429, code="too_many_streams")
            assert int(answer.headers["retry-after"]) > 0
            async with served.stream(), served.stream(), served.stream():
                assert_problem(await served.operator.get("/stream"), 503, code="overloaded")
        async with asyncio.timeout(PATIENCE):
            while served.context.stream_slots.taken:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.02)
        async with served.stream(key):
            pass


async def test_body_of_a_stream_request_takes_no_memory(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise callers that read events could block callers that emit them."""
    monkeypatch.setattr(byte_budget, "WAIT_SECONDS", 0.1)
    settings = development_settings(database_url, tmp_path)
    settings = settings.model_copy(update={"max_body_memory": 1_000_000})
    async with serving(settings) as served:
        _, key = await served.tenant()
        async with (
            served.client(key) as client,
            client.stream("GET", "/stream", content=b"{" * 20_000) as answer,
        ):
            assert answer.status_code == 200
            batch = {"events": [{"type": TYPE, "data": [{}] * 4_000}]}
            emitted = await served.operator.post("/events/batch", json=batch)
            assert emitted.status_code == 202, emitted.text
