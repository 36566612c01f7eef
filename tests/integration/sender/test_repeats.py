"""A reused connection that ends before an answer begins costs a receiver no failed attempt: the
request is sent once more, on a new connection."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trustme

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.origin import keep_alive_seconds
from tests.integration.sender.conftest import LOOPBACK, post, repeats
from tests.support.closing_receiver import ClosingReceiver
from tests.support.distance import Distance
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
    "path",
    [
        "/cut/1",
        "/cut/20?reset",
        "/close-mid-headers",
        "/reset-mid-body",
        "/wire/HTTP%2F1.1%20103%20Early%20Hints%0D%0A%0D%0A?close",
    ],
)
async def test_a_request_whose_answer_began_is_never_repeated(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    await post(sender, receiver.url("/ok"))
    await post(sender, receiver.url(path))
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
    assert outcome.error is not None
    assert "within 0.2 s" in outcome.error


async def test_a_408_that_ends_an_idle_connection_is_not_the_answer(sender: Sender) -> None:
    for head, status in ((b"Connection: close\r\n\r\n", 200), (b"\r\n", 408)):
        async with _second_request(lambda _, head=head: _TIMEOUT_408 + head) as url:
            await post(sender, url)
            assert (await post(sender, url)).status_code == status


async def test_what_comes_before_the_request_leaves_is_not_its_answer(sender: Sender) -> None:
    """A reused connection whose receiver sends a second answer to the request before."""
    second = asyncio.Event()

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"{}")
            await _ok(writer)
            await second.wait()
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await reader.read()
        writer.close()

    async def confirm() -> None:
        second.set()
        await asyncio.sleep(0.05)  # until it has arrived

    server = await asyncio.start_server(twice, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await post(sender, url)
        assert (await post(sender, url, confirm=confirm)).status_code == 200


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
    async with ClosingReceiver(keep_alive=PATIENCE) as receiver:
        await post(sender, receiver.url)
        receiver.on_request = receiver.stop  # before it answers
        outcome = await post(sender, receiver.url)
    assert outcome.result is Result.REFUSED


@pytest.mark.parametrize(
    ("scheme", "abruptly"),
    [("http", False), ("https", False), ("https", True)],
    ids=["plain", "tls", "tls-without-close-notify"],
)
async def test_a_request_that_crosses_the_end_of_its_connection_costs_no_attempt(
    sender: Sender, authority: trustme.CA, scheme: str, abruptly: bool
) -> None:
    """The end leaves the receiver before the request arrives, and arrives after that has left."""
    ssl_context = None
    if scheme == "https":
        ssl_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(ssl_context)
    before = repeats()
    async with (
        ClosingReceiver(keep_alive=0.15, abruptly=abruptly, ssl_context=ssl_context) as receiver,
        Distance(receiver.port, seconds=0.1) as distance,
    ):
        url = f"{scheme}://127.0.0.1:{distance.relayed_port}/"
        assert (await post(sender, url)).succeeded
        await asyncio.sleep(0.05)
        assert (await post(sender, url)).succeeded
        assert (receiver.connections, receiver.requests) == (2, 2)
    assert repeats() == before + 1


async def test_a_receiver_that_closes_idle_connections_soon_loses_no_attempt() -> None:
    """Fifty connections, and on each the next requests leave while the receiver closes it: from
    40 ms before to 40 ms after. `test_foreign_receivers` has longer times and other servers."""
    outcomes: Counter[str] = Counter()

    async def send(sender: Sender, url: str, place: int) -> None:
        for _ in range(3):
            outcomes[(await post(sender, url)).result] += 1
            await asyncio.sleep(0.05 + (place - 25) * 0.0016)

    async with contextlib.AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(ClosingReceiver(keep_alive=0.05))
        senders = [  # one each, so that each uses its own connection
            await stack.enter_async_context(Sender(guard=AddressGuard(LOOPBACK))) for _ in range(50)
        ]
        await asyncio.gather(
            *(send(sender, receiver.url, place) for place, sender in enumerate(senders))
        )
    assert outcomes == {Result.SUCCESS: 150}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("timeout=5", 4),
        ("timeout=5, max=1000", 4),
        ("max=1000,TIMEOUT = 5", 4),
        ('timeout="5"', 4),
        ("timeout=1", 0),
        ("timeout=0", -1),
        ("timeout=75", 60),
        ("timeout=999999999", 60),
        ("timeout=9999999999", 2),
        ("timeout=1.5", 2),
        ("timeout=-5", 2),
        ("timeout=", 2),
        ("xtimeout=5", 2),
        ("\xff\x00", 2),
        ("", 2),
    ],
)
async def test_keep_alive_header_is_read_and_garbage_ignored(value: str, seconds: float) -> None:
    headers = [("Server", "x"), ("Keep-Alive", value)]
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
