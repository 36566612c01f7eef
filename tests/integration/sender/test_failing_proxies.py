"""Egress proxies that fail: ours to repair, so not an attempt, unless they say that they do not
reach the receiver."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.sender import AddressGuard, EgressUnavailable, Sender
from hookfast.sender.proxy import MAX_HEAD
from hookfast.settings.egress_proxy import EgressProxy
from tests.e2e.service_process import free_ports
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

INVALID = "its answer is not valid HTTP/1.1"
URL = "http://x.example/"
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Proxy:
    """Sends `parts` to each client that asks for a tunnel; then closes the connection, or keeps it
    open until the client closes it. `asked` are the heads of the requests. `gate` delays the
    answers."""

    def __init__(self, *parts: bytes, closes: bool = False) -> None:
        self.asked: list[str] = []
        self.left = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._parts, self._closes = parts, closes

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        await self.gate.wait()
        for part in self._parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)  # each part is received by itself
        if self._closes:
            return
        await reader.read()
        self.left.set()


@asynccontextmanager
async def through(proxy: Proxy, *addresses: str) -> AsyncIterator[Sender]:
    """Create a sender that uses this proxy, and resolves every name to these addresses."""
    async with Receiver(serve=proxy) as server:
        settings = EgressProxy(host="127.0.0.1", port=server.port, credentials=None)
        async with Sender(
            guard=AddressGuard(LOOPBACK),
            lookup=lambda _: addresses or ("127.0.0.1",),
            proxy=settings,
        ) as sender:
            yield sender


def rejection(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno".encode()


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("403 Forbidden", "The egress proxy refused to connect to x.example:80 (403)."),
        ("407 Denied", "The egress proxy refused to connect to x.example:80 (407)."),
        ("301 Moved", "The egress proxy refused to connect to x.example:80 (301)."),
        ("502 Bad Gateway", "The egress proxy could not connect to x.example:80 (502)."),
        ("503 Unavailable", "The egress proxy could not connect to x.example:80 (503)."),
        ("504 Timeout", "The egress proxy could not connect to x.example:80 (504)."),
    ],
)
async def test_a_tunnel_that_the_proxy_does_not_open_is_a_failed_attempt(
    status: str, sentence: str
) -> None:
    proxy = Proxy(rejection(status))
    async with through(proxy) as sender:
        outcome = await post(sender, URL)
    assert (outcome.result, outcome.error) == (Result.UNREACHABLE, sentence)
    assert proxy.asked == ["CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            [rejection("407 Who?\r\nProxy-Authenticate: Basic")],
            "it rejects our requests (407 Proxy Authentication Required)",
        ),
        ([rejection("429 Slow")], "it rejects our requests (429 Too Many Requests)"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], INVALID),
        ([b"HTTP/1.1 twohundred\r\n\r\n"], INVALID),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD], INVALID),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" * 300] * 3, INVALID),  # 21 KiB
        ([], "it closes connections without answering"),
        ([b"HTTP/1.1 200 OK\r\n"], "it closes connections without answering"),
    ],
    ids=["407", "429", "ssh", "garbage", "huge", "interim", "silent", "cut"],
)
async def test_a_proxy_that_does_not_work_is_no_attempt(parts: list[bytes], problem: str) -> None:
    proxy = Proxy(*parts, closes=True)
    async with through(proxy, "127.0.0.1", "127.0.0.2", "127.0.0.3") as sender:
        with pytest.raises(EgressUnavailable) as caught:
            await post(sender, URL, timeout=PATIENCE)
    assert caught.value.message == f"The egress proxy does not work: {problem}. Nothing was sent."
    assert len(proxy.asked) == 1  # the others would fail alike


@pytest.mark.parametrize(
    "parts",
    [
        (OK,),
        (OK + ANSWER,),
        (b"HTTP/1.0 200 OK\r\n", b"Content-Length: 7\r\n\r", b"\n" + ANSWER),
        (b"HTTP/1.1 201 Created\n", b"\n" + ANSWER),
        (b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + ANSWER,),
    ],
)
async def test_bytes_after_the_proxys_answer_are_the_receivers(parts: Sequence[bytes]) -> None:
    async with through(Proxy(*parts, closes=True)) as sender:
        outcome = await post(sender, URL)
    if len(parts) == 1 and parts[0] == OK:
        assert outcome.error == "x.example:80 closed the connection without answering."
    else:
        assert outcome.status_code == 204


async def test_a_proxy_that_does_not_answer_in_time_is_a_timeout_and_is_hung_up_on() -> None:
    proxy = Proxy()
    async with through(proxy) as sender:
        outcome = await post(sender, URL, timeout=0.2)
        async with asyncio.timeout(PATIENCE):
            await proxy.left.wait()
    assert (outcome.result, outcome.error) == (
        Result.TIMEOUT,
        "No answer within 0.2 s: the egress proxy did not open the connection to x.example:80 in "
        "time.",
    )


async def test_a_slow_proxy_is_asked_for_one_address_only() -> None:
    proxy = Proxy(OK + ANSWER)
    proxy.gate.clear()
    async with through(proxy, "127.0.0.1", "127.0.0.2", "127.0.0.3") as sender:
        request = asyncio.create_task(post(sender, URL))
        await asyncio.sleep(0.4)  # longer than between two direct connections
        proxy.gate.set()
        assert (await request).succeeded
    assert len(proxy.asked) == 1


async def test_a_proxy_that_is_away_is_no_attempt() -> None:
    (port,) = free_ports(1)
    message = await _message(EgressProxy(host="127.0.0.1", port=port, credentials=None))
    assert message == "The egress proxy does not work: it cannot be reached. Nothing was sent."


async def test_a_proxy_whose_name_does_not_resolve_is_no_attempt() -> None:
    message = await _message(EgressProxy(host="proxy.example", port=3128, credentials=None))
    assert message == (
        "The egress proxy does not work: its name does not resolve. Nothing was sent."
    )


async def test_a_proxy_that_does_not_take_the_connection_in_time_is_no_attempt() -> None:
    with socket.socket() as silent:  # a full accept queue drops new connections
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        address = silent.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            await asyncio.sleep(0.05)
            proxy = EgressProxy(host="127.0.0.1", port=address[1], credentials=None)
            message = await _message(proxy, timeout=0.3)
        finally:
            for filler in fillers:
                filler.close()
    assert message == "The egress proxy does not work: it cannot be reached. Nothing was sent."


async def test_a_request_that_was_sent_is_an_attempt_although_the_proxy_is_away() -> None:
    """It was sent on a kept connection, which ended; repeating it fails."""
    requests = 0

    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        await reader.readuntil(b"\r\n\r\n")
        if requests > 1:
            writer.write(b"HTTP/1.1 429 Slow\r\n\r\n")
            return
        writer.write(OK)
        await reader.readuntil(b"{}")
        writer.write(ANSWER)
        await reader.readuntil(b"{}")

    async with through(dying) as sender:  # type: ignore[arg-type]
        first = await post(sender, URL)
        second: Outcome = await post(sender, URL)
    assert first.succeeded
    assert second.result is Result.RESET
    assert requests == 2


async def _message(proxy: EgressProxy, timeout: float = PATIENCE) -> str:
    def lookup(host: str) -> Sequence[str]:
        if host == "proxy.example":
            raise socket.gaierror(socket.EAI_NONAME, "as the resolver says it")
        return ["127.0.0.1"]

    async with Sender(guard=AddressGuard(LOOPBACK), lookup=lookup, proxy=proxy) as sender:
        with pytest.raises(EgressUnavailable) as caught:
            await post(sender, URL, timeout=timeout)
    return caught.value.message
