"""Connection reuse: how long, for which requests and how many connections are kept."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.dial import Dialer
from hookfast.sender.failure import OutOfResources
from hookfast.sender.origin import Destination, PoolLimits
from hookfast.sender.phase import RequestPhase
from hookfast.sender.pool import ConnectionPool
from hookfast.sender.progress import begin_progress
from hookfast.sender.request import Request
from hookfast.sender.resolver import Resolver
from hookfast.sender.stream import Stream
from hookfast.sender.url import parse_url
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.closing_receiver import ClosingReceiver
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_connection_checked_for_other_networks_is_not_reused(
    sender: Sender, receiver: Receiver
) -> None:
    assert (await post(sender, receiver.url())).succeeded
    outside = await post(sender, receiver.url(), allowed_networks=[ip_network("8.8.8.0/24")])
    assert outside.result is Result.ADDRESS


async def test_a_connection_is_kept_for_the_next_request(
    sender: Sender, receiver: Receiver
) -> None:
    for path in ("/ok", "/status/500", "/chunks/3", "/blank-lines", "/status/204"):
        await post(sender, receiver.url(path))
    assert [request.connection for request in receiver.requests] == [1, 1, 1, 1, 1]


async def test_a_second_connection_is_opened_when_the_first_is_in_use(
    sender: Sender, receiver: Receiver
) -> None:
    await asyncio.gather(*(post(sender, receiver.url("/slow/0.05")) for _ in range(3)))
    assert receiver.connections == 3


@pytest.mark.parametrize(
    "path",
    [
        "/extra",
        "/extra-chunked",
        "/extra-no-content",
        "/body/100000",
        "/close-after",
        "/drip-body/0.01",
    ],
)
async def test_a_connection_that_did_not_end_cleanly_is_never_reused(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    await post(sender, receiver.url(path), timeout=0.3)
    await asyncio.sleep(0.05)
    outcome = await post(sender, receiver.url())
    assert outcome.succeeded
    assert outcome.response_excerpt == "ok"
    assert [request.connection for request in receiver.requests] == [1, 2]


async def test_closing_the_sender_closes_its_idle_connections(receiver: Receiver) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK)) as sender:
        await post(sender, receiver.url())
        assert receiver.open_connections == 1
    await _until_closed(receiver)


async def test_a_request_in_progress_completes_when_the_sender_closes(
    receiver: Receiver,
) -> None:
    sender = Sender(guard=AddressGuard(LOOPBACK))
    running = asyncio.create_task(post(sender, receiver.url("/slow/0.1")))
    await receiver.wait_for(1)
    await sender.aclose()
    assert (await running).succeeded
    await _until_closed(receiver)


async def test_an_idle_connection_closes_after_its_time(receiver: Receiver) -> None:
    async with pooling(idle_seconds=0.05) as pool:
        await get(pool, receiver.url())
        assert pool.open_connections == 1
        await asyncio.sleep(0.1)
        assert pool.open_connections == 0
        await _until_closed(receiver)


async def test_an_idle_connection_closes_after_its_time_beside_one_in_use(
    receiver: Receiver,
) -> None:
    async with pooling(idle_seconds=0.05) as pool:
        await asyncio.gather(get(pool, receiver.url("/slow/0.15")), get(pool, receiver.url()))
        assert pool.open_connections == 1


async def test_an_idle_connection_is_kept_for_a_second_less_than_the_server_says() -> None:
    async with (
        ClosingReceiver(keep_alive=PATIENCE) as receiver,
        pooling(idle_seconds=0.05) as pool,
    ):
        receiver.head = b"Keep-Alive: timeout=1, max=100\r\n"
        await get(pool, receiver.url)
        assert pool.open_connections == 0
        receiver.head = b"Keep-Alive: timeout=60\r\n"
        await get(pool, receiver.url)
        await asyncio.sleep(0.1)  # longer than without the header
        await get(pool, receiver.url)
        assert receiver.connections == 2


async def test_the_pool_keeps_a_few_connections_per_origin_and_drops_the_oldest(
    receiver: Receiver,
) -> None:
    slow = receiver.url("/slow/0.3")
    async with pooling(max_idle_per_origin=2) as pool:
        running = []
        for count in (1, 2, 3):
            running.append(asyncio.create_task(get(pool, slow)))
            await receiver.wait_for(count)
        await asyncio.gather(*running)
        assert pool.open_connections == 2
        await asyncio.gather(*(get(pool, slow) for _ in range(2)))
    assert {request.connection for request in receiver.requests[3:]} == {2, 3}


async def test_the_next_request_takes_the_connection_that_became_idle_last(
    receiver: Receiver,
) -> None:
    async with pooling() as pool:
        running = []
        for count in (1, 2, 3):
            running.append(asyncio.create_task(get(pool, receiver.url("/slow/0.3"))))
            await receiver.wait_for(count)
        await asyncio.gather(*running)
        for _ in range(2):
            await get(pool, receiver.url())
    assert [request.connection for request in receiver.requests] == [1, 2, 3, 3, 3]


async def test_a_connection_with_bytes_after_its_response_is_closed(
    receiver: Receiver,
) -> None:
    async with pooling() as pool:
        await get(pool, receiver.url("/extra-chunked"))
        assert pool.open_connections == 0


async def test_the_pool_drops_the_origin_that_was_used_longest_ago(receiver: Receiver) -> None:
    async with pooling(max_open=2) as pool:
        for name in ("a", "b", "c", "b", "c", "a"):
            await get(pool, receiver.url(host=f"{name}.example"))
        assert pool.open_connections == 2
    assert [request.connection for request in receiver.requests] == [1, 2, 3, 2, 3, 4]


async def test_a_request_waits_for_a_connection_at_the_origins_limit(
    receiver: Receiver,
) -> None:
    async with pooling(max_per_origin=1) as pool:
        first = asyncio.create_task(get(pool, receiver.url("/slow/1")))
        await receiver.wait_for(1)
        progress = begin_progress()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await exchange(pool, receiver.url())
        assert progress.phase is RequestPhase.QUEUED
        await get(pool, receiver.url())
        await first
    assert [request.connection for request in receiver.requests] == [1, 1]


async def test_a_shortage_of_file_descriptors_is_raised_and_not_an_outcome(
    sender: Sender, receiver: Receiver
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(OutOfResources, match="too many open files"):
            await post(sender, receiver.url())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await post(sender, receiver.url())).succeeded


@asynccontextmanager
async def pooling(**limits: float) -> AsyncIterator[ConnectionPool]:
    """A pool for which every name is this machine."""
    resolver = Resolver(lambda host: ["127.0.0.1"])
    dialer = Dialer(guard=AddressGuard(LOOPBACK), resolver=resolver)
    pool = ConnectionPool(dialer, PoolLimits(**limits))
    yield pool
    await pool.aclose()
    resolver.close()


async def get(pool: ConnectionPool, url: str) -> None:
    begin_progress()
    await exchange(pool, url)


async def exchange(pool: ConnectionPool, url: str) -> None:
    to = parse_url(url)
    message = Request("GET", to, {}, b"").message(None)
    await pool.exchange(Destination(to.host, to.port), message)


async def _until_closed(receiver: Receiver) -> None:
    async with asyncio.timeout(PATIENCE):
        while receiver.open_connections:  # noqa: ASYNC110 (the receiver has no event for it)
            await asyncio.sleep(0.01)


async def test_a_connection_cancelled_as_it_opens_does_not_count_as_open(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Stream.connection_made
    streams = []

    def give_up(stream: Stream, transport: asyncio.BaseTransport) -> None:
        opened(stream, transport)
        streams.append(stream)
        attempt.cancel()

    monkeypatch.setattr(Stream, "connection_made", give_up)
    sender = Sender(guard=AddressGuard(LOOPBACK))
    attempt = asyncio.create_task(post(sender, receiver.url()))
    with pytest.raises(asyncio.CancelledError):
        await attempt
    monkeypatch.undo()
    assert len(streams) == 1
    async with asyncio.timeout(PATIENCE):
        await streams[0].wait_closed()
        assert (await post(sender, receiver.url())).succeeded
        await sender.aclose()
