"""A reused connection that ends before an answer begins costs a receiver no failed attempt: the
request is sent once more, on a new connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.origin import keep_alive_seconds
from tests.integration.sender.conftest import LOOPBACK, post, repeats
from tests.support.closing_receiver import ClosingReceiver
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

_TIMEOUT_408 = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n"


class Worthless(Exception):
    """What `confirm` raises when a delivery was cancelled meanwhile."""


@pytest.mark.parametrize("path", ["/close", "/reset", "/reset-early"])
async def test_a_request_on_a_reused_connection_that_ends_is_sent_once_more(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    before = repeats()
    await post(sender, receiver.url("/ok"))
    outcome = await post(sender, receiver.url(path))  # which also ends the second connection
    assert outcome.result is Result.RESET
    assert [one.path for one in receiver.requests] == ["/ok", path, path]
    assert [one.connection for one in receiver.requests] == [1, 1, 2]
    assert repeats() == before + 1


@pytest.mark.parametrize("path", ["/close", "/reset"])
async def test_a_request_on_a_new_connection_is_never_repeated(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    assert (await post(sender, receiver.url(path))).result is Result.RESET
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "path", ["/cut/1", "/cut/20?reset", "/close-mid-headers", "/reset-mid-body"]
)
async def test_a_request_whose_answer_began_is_never_repeated(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    await post(sender, receiver.url("/ok"))
    assert not (await post(sender, receiver.url(path))).succeeded
    assert [one.connection for one in receiver.requests] == [1, 1]


async def test_the_repeat_does_not_use_another_idle_connection(
    sender: Sender, receiver: Receiver
) -> None:
    await asyncio.gather(*(post(sender, receiver.url("/slow/0.05")) for _ in range(3)))
    await post(sender, receiver.url("/close"))
    assert [one.connection for one in receiver.requests][-1] == 4


async def test_the_repeat_is_under_the_same_deadline(sender: Sender) -> None:
    async with _second_request(lambda _: b"", then=_silence) as url:
        await post(sender, url)
        outcome = await post(sender, url, timeout=0.2)
    assert outcome.result is Result.TIMEOUT
    assert outcome.duration_ms >= 200


async def test_a_408_that_ends_an_idle_connection_is_not_the_answer(sender: Sender) -> None:
    for head, status in ((b"Connection: close\r\n\r\n", 200), (b"\r\n", 408)):
        async with _second_request(lambda _, head=head: _TIMEOUT_408 + head) as url:
            await post(sender, url)
            assert (await post(sender, url)).status_code == status


@pytest.mark.parametrize("slow", [False, True], ids=["raises", "deadline"])
async def test_a_repeat_that_may_not_be_sent_leaves_the_first_failure(
    sender: Sender, receiver: Receiver, slow: bool
) -> None:
    """The first request may have arrived, so this must not look as if nothing was sent."""
    confirmed = 0

    async def confirm() -> None:
        nonlocal confirmed
        confirmed += 1
        if confirmed == 2:
            if not slow:
                raise Worthless
            await asyncio.sleep(PATIENCE)

    await post(sender, receiver.url("/ok"))
    timeout = 0.3 if slow else 5.0
    outcome = await post(sender, receiver.url("/close"), confirm=confirm, timeout=timeout)
    assert outcome.result is Result.RESET
    assert confirmed == 2
    assert [one.path for one in receiver.requests] == ["/ok", "/close"]


async def test_a_repeat_to_a_receiver_that_has_gone_names_what_happened(sender: Sender) -> None:
    receiver = ClosingReceiver(keep_alive=PATIENCE)
    url = await receiver.start()
    await post(sender, url)
    receiver.on_request = receiver.stop  # before it answers
    outcome = await post(sender, url)
    assert outcome.result is Result.REFUSED


@pytest.mark.parametrize(
    ("keep_alive", "announced"), [(0.05, False), (1, False), (2, False), (2, True), (5, True)]
)
async def test_healthy_receivers_that_close_idle_connections_lose_no_attempt(
    keep_alive: float, announced: bool
) -> None:
    """Fifty connections each, and on each the next request leaves while the receiver closes it:
    from 40 ms before to 40 ms after."""
    receiver = ClosingReceiver(keep_alive=keep_alive, announced=announced)
    url = await receiver.start()
    loop = asyncio.get_running_loop()
    outcomes: Counter[str] = Counter()

    async def one(sender: Sender, place: int) -> None:
        for _ in range(2):
            outcomes[(await post(sender, url)).result] += 1
            closes_at = loop.time() + keep_alive
            await asyncio.sleep(max(0.0, closes_at + (place - 25) * 0.0016 - loop.time()))

    try:
        async with contextlib.AsyncExitStack() as stack:
            senders = [  # one each, so that each uses its own connection
                await stack.enter_async_context(Sender(guard=AddressGuard(LOOPBACK)))
                for _ in range(50)
            ]
            await asyncio.gather(*(one(sender, place) for place, sender in enumerate(senders)))
    finally:
        await receiver.stop()
    assert outcomes == {Result.SUCCESS: 100}


async def test_idle_connections_are_kept_as_long_as_the_server_says(sender: Sender) -> None:
    receiver = ClosingReceiver(keep_alive=PATIENCE)
    url = await receiver.start()
    try:
        receiver.head = b"Keep-Alive: timeout=1, max=100\r\n"
        await post(sender, url)
        await post(sender, url)
        assert receiver.connections == 2  # a second less than one is not kept
        receiver.head = b"Keep-Alive: timeout=30\r\n"
        await post(sender, url)
        await asyncio.sleep(2.1)  # longer than without the header
        await post(sender, url)
        assert receiver.connections == 3
    finally:
        await receiver.stop()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"timeout=5", 4),
        (b"timeout=5, max=1000", 4),
        (b"max=1000,TIMEOUT = 5", 4),
        (b'timeout="5"', 4),
        (b"timeout=1", 0),
        (b"timeout=0", -1),
        (b"timeout=75", 60),
        (b"timeout=999999999", 60),
        (b"timeout=9999999999", 2),
        (b"timeout=1.5", 2),
        (b"timeout=-5", 2),
        (b"timeout=", 2),
        (b"xtimeout=5", 2),
        (b"\xff\x00", 2),
        (b"", 2),
    ],
)
async def test_keep_alive_header_is_read_and_garbage_ignored(value: bytes, seconds: float) -> None:
    headers = [(b"Server", b"x"), (b"Keep-Alive", value)]
    assert keep_alive_seconds(headers, default=2) == seconds


async def _silence(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(PATIENCE)


async def _ok(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@asynccontextmanager
async def _second_request(
    answer: Callable[[bytes], bytes],
    *,
    then: Callable[[asyncio.StreamWriter], Awaitable[None]] = _ok,
) -> AsyncIterator[str]:
    """A server that answers its first request, ends that connection with `answer` to the second,
    and does `then` with a third, on a new connection."""
    requests = 0
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        tasks.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                requests += 1
                if requests == 2:
                    writer.write(answer(head))
                    break
                await (_ok if requests == 1 else then)(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
