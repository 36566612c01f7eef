"""Where the sender connects to, and how long it keeps a connection."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network

import httpx2
import pytest

from hookfast.outcome import Outcome, Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.dial import Dialer
from hookfast.sender.progress import Phase, begin_progress
from hookfast.sender.resolver import Lookup, Resolver
from hookfast.sender.stream import Stream
from hookfast.sender.transport import OriginTransport
from tests.integration.sender.conftest import LOOPBACK
from tests.receiver import Receiver
from tests.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio


async def post(sender: Sender, url: str, **options: object) -> Outcome:
    return await sender.post(url, headers={}, body=b"{}", **{"timeout": 5.0, **options})


@asynccontextmanager
async def resolving(*addresses: str) -> AsyncIterator[Sender]:
    """A sender for which every name has these addresses."""
    async with Sender(guard=AddressGuard(LOOPBACK), lookup=lambda host: addresses) as sender:
        yield sender


async def test_it_dials_the_resolved_address_and_keeps_the_name_in_host(receiver: Receiver) -> None:
    async with resolving("127.0.0.1") as sender:
        outcome = await post(sender, receiver.url(host="hooks.example"))
    assert outcome.succeeded
    assert receiver.requests[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_it_resolves_once_per_connection(receiver: Receiver) -> None:
    asked = []

    def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with Sender(guard=AddressGuard(LOOPBACK), lookup=rebinding) as sender:
        first = await post(sender, receiver.url(host="rebind.example"))
        again = await post(sender, receiver.url(host="rebind.example"))
        await post(sender, receiver.url("/close-after", host="rebind.example"))
        await asyncio.sleep(0.05)
        fresh = await post(sender, receiver.url(host="rebind.example"))
    assert first.succeeded
    assert again.succeeded
    assert fresh.result is Result.ADDRESS
    assert asked == ["rebind.example"] * 2


@pytest.mark.parametrize(
    ("addresses", "sentence"),
    [
        (
            ["10.0.0.1"],
            "x.example resolves to an address that must not be sent to (private).",
        ),
        (
            ["127.0.0.1", "169.254.169.254"],
            "x.example resolves to an address that must not be sent to (link-local).",
        ),
        (
            ["::ffff:10.0.0.1"],
            "x.example resolves to an address that must not be sent to (IPv4-mapped).",
        ),
    ],
)
async def test_it_connects_nowhere_when_one_answer_is_not_allowed(
    receiver: Receiver, addresses: list[str], sentence: str
) -> None:
    async with resolving(*addresses) as sender:
        outcome = await post(sender, receiver.url(host="x.example"))
    assert (outcome.result, outcome.error) == (Result.ADDRESS, sentence)
    assert receiver.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
async def test_it_judges_numeric_hosts_and_localhost_too(receiver: Receiver, host: str) -> None:
    async with Sender(guard=AddressGuard()) as sender:
        outcome = await post(sender, receiver.url(host=host))
    assert outcome.result is Result.ADDRESS
    assert receiver.connections == 0


async def test_it_connects_only_within_the_endpoints_networks(
    sender: Sender, receiver: Receiver
) -> None:
    inside = await post(sender, receiver.url(), allowed_networks=[ip_network("127.0.0.1/32")])
    outside = await post(sender, receiver.url(), allowed_networks=[ip_network("8.8.8.0/24")])
    assert inside.succeeded
    assert outside.result is Result.ADDRESS
    assert "outside the endpoint's allowed networks" in (outside.error or "")


async def test_a_connection_judged_by_other_networks_is_not_reused(
    sender: Sender, receiver: Receiver
) -> None:
    assert (await post(sender, receiver.url())).succeeded
    outside = await post(sender, receiver.url(), allowed_networks=[ip_network("8.8.8.0/24")])
    assert outside.result is Result.ADDRESS


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (socket.EAI_NONAME, "The name x.example does not resolve to an address."),
        (socket.EAI_AGAIN, "The name server for x.example did not answer."),
    ],
)
async def test_a_name_that_does_not_resolve_is_a_dns_failure(error: int, sentence: str) -> None:
    def failing(host: str) -> Sequence[str]:
        raise socket.gaierror(error, "as the resolver says it")

    async with Sender(guard=AddressGuard(), lookup=failing) as sender:
        outcome = await post(sender, "https://x.example/")
    assert (outcome.result, outcome.error) == (Result.DNS, sentence)


async def test_a_name_without_addresses_is_a_dns_failure() -> None:
    async with resolving() as sender:
        assert (await post(sender, "https://x.example/")).result is Result.DNS


async def test_the_systems_resolver_knows_localhost_and_not_an_invalid_name(
    sender: Sender, receiver: Receiver
) -> None:
    assert (await post(sender, receiver.url(host="localhost"))).succeeded
    assert (await post(sender, "http://nowhere.invalid/")).result is Result.DNS


async def test_the_deadline_holds_against_a_resolver_that_hangs() -> None:
    async with _hanging_resolver() as (lookup, asked):
        async with Sender(guard=AddressGuard(), lookup=lookup) as sender:
            outcomes = await asyncio.gather(
                *(post(sender, "https://slow.example/", timeout=0.2) for _ in range(100))
            )
        assert {outcome.result for outcome in outcomes} == {Result.TIMEOUT}
        assert outcomes[0].error == (
            "No answer within 0.2 s: the name slow.example:443 did not resolve in time."
        )
        assert asked == ["slow.example"]  # 100 waiters, one thread


async def test_a_name_that_hangs_does_not_hold_up_another(receiver: Receiver) -> None:
    async with (
        _hanging_resolver(but="fast.example") as (lookup, _),
        Sender(guard=AddressGuard(LOOPBACK), lookup=lookup) as sender,
    ):
        hanging = asyncio.create_task(post(sender, "https://slow.example/", timeout=0.5))
        assert (await post(sender, receiver.url(host="fast.example"))).succeeded
        assert not hanging.done()
        await hanging


async def test_one_waiter_that_gives_up_leaves_the_others_their_lookup(receiver: Receiver) -> None:
    async with (
        _hanging_resolver() as (lookup, asked),
        Sender(guard=AddressGuard(LOOPBACK), lookup=lookup) as sender,
    ):
        patient = asyncio.create_task(post(sender, receiver.url(host="slow.example")))
        hasty = await post(sender, receiver.url(host="slow.example"), timeout=0.1)
        asked.release()
        assert hasty.result is Result.TIMEOUT
        assert (await patient).succeeded
        assert asked == ["slow.example"]


async def test_it_goes_on_to_the_next_address_when_one_refuses(receiver: Receiver) -> None:
    # 127.0.0.2 is loopback too, and nothing listens there
    async with resolving("127.0.0.2", "127.0.0.3", "127.0.0.1") as sender:
        assert (await post(sender, receiver.url(host="x.example"))).succeeded


async def test_it_reports_a_refusal_when_every_address_refuses(receiver: Receiver) -> None:
    async with resolving("127.0.0.2", "127.0.0.3") as sender:
        outcome = await post(sender, receiver.url(host="x.example"))
    assert outcome.result is Result.REFUSED
    assert outcome.error == (
        f"Nothing is listening at x.example:{receiver.port}: the connection was refused."
    )


async def test_an_address_that_does_not_answer_costs_a_quarter_of_a_second(
    receiver: Receiver,
) -> None:
    with socket.socket() as silent:  # a full accept queue drops what knocks
        silent.bind(("127.0.0.2", receiver.port))
        silent.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.2", receiver.port))
            await asyncio.sleep(0.05)
            async with resolving("127.0.0.2", "127.0.0.1") as sender:
                outcome = await within(0.9, post(sender, receiver.url(host="x.example")))
        finally:
            for filler in fillers:
                filler.close()
    assert outcome.succeeded
    assert outcome.duration_ms >= 250


async def test_it_keeps_a_connection_for_the_next_request(
    sender: Sender, receiver: Receiver
) -> None:
    for path in ("/ok", "/status/500", "/chunks/3", "/status/204"):
        await post(sender, receiver.url(path))
    assert [request.connection for request in receiver.requests] == [1, 1, 1, 1]


async def test_it_opens_a_second_connection_when_the_first_is_in_use(
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
        "/blank-lines",
        "/body/100000",
        "/close-after",
        "/drip-body/0.01",
    ],
)
async def test_it_never_reuses_a_connection_that_did_not_end_cleanly(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    await post(sender, receiver.url(path), timeout=0.3)
    await asyncio.sleep(0.05)
    outcome = await post(sender, receiver.url())
    assert outcome.succeeded
    assert outcome.response_excerpt == "ok"
    assert [request.connection for request in receiver.requests] == [1, 2]


async def test_it_never_sends_a_request_twice(sender: Sender, receiver: Receiver) -> None:
    await post(sender, receiver.url("/ok"))
    outcome = await post(sender, receiver.url("/close"))  # on the kept connection
    assert outcome.result is Result.RESET
    assert [request.path for request in receiver.requests] == ["/ok", "/close"]


async def test_closing_the_sender_closes_its_idle_connections(receiver: Receiver) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK)) as sender:
        await post(sender, receiver.url())
        assert receiver.open_connections == 1
    await _until_closed(receiver)


async def test_a_request_under_way_when_the_sender_closes_ends_and_then_closes(
    receiver: Receiver,
) -> None:
    sender = Sender(guard=AddressGuard(LOOPBACK))
    running = asyncio.create_task(post(sender, receiver.url("/slow/0.1")))
    await receiver.wait_for(1)
    await sender.aclose()
    assert (await running).succeeded
    await _until_closed(receiver)


async def test_an_idle_connection_closes_after_its_time(receiver: Receiver) -> None:
    async with transporting(idle_seconds=0.05) as transport:
        await get(transport, receiver.url())
        assert transport.open_connections == 1
        await asyncio.sleep(0.1)
        assert transport.open_connections == 0
        await _until_closed(receiver)


async def test_an_idle_connection_closes_after_its_time_beside_one_in_use(
    receiver: Receiver,
) -> None:
    async with transporting(idle_seconds=0.05) as transport:
        await asyncio.gather(
            get(transport, receiver.url("/slow/0.15")), get(transport, receiver.url())
        )
        assert transport.open_connections == 1


async def test_the_pool_keeps_a_few_connections_per_origin_and_drops_the_oldest(
    receiver: Receiver,
) -> None:
    slow = receiver.url("/slow/0.3")
    async with transporting(max_idle_per_origin=2) as transport:
        running = []
        for count in (1, 2, 3):
            running.append(asyncio.create_task(get(transport, slow)))
            await receiver.wait_for(count)
        await asyncio.gather(*running)
        assert transport.open_connections == 2
        await asyncio.gather(*(get(transport, slow) for _ in range(2)))
    assert {request.connection for request in receiver.requests[3:]} == {2, 3}


async def test_the_pool_drops_the_origin_that_was_used_longest_ago(receiver: Receiver) -> None:
    async with transporting(max_open=2) as transport:
        for name in ("a", "b", "c", "b", "c", "a"):
            await get(transport, receiver.url(host=f"{name}.example"))
        assert transport.open_connections == 2
    assert [request.connection for request in receiver.requests] == [1, 2, 3, 2, 3, 4]


async def test_a_request_waits_for_a_connection_when_an_origin_has_all_it_may(
    receiver: Receiver,
) -> None:
    async with transporting(max_per_origin=1) as transport:
        first = asyncio.create_task(get(transport, receiver.url("/slow/1")))
        await receiver.wait_for(1)
        progress = begin_progress()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await transport.handle_async_request(httpx2.Request("GET", receiver.url()))
        assert progress.phase is Phase.QUEUED
        await get(transport, receiver.url())
        await first
    assert [request.connection for request in receiver.requests] == [1, 1]


async def test_our_own_shortage_of_descriptors_is_no_outcome(
    sender: Sender, receiver: Receiver
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(OSError, match="Too many open files") as shortage:
            await post(sender, receiver.url())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shortage.value.errno == errno.EMFILE
    assert (await post(sender, receiver.url())).succeeded


@asynccontextmanager
async def transporting(**limits: float) -> AsyncIterator[OriginTransport]:
    """A transport for which every name is this machine."""
    resolver = Resolver(lambda host: ["127.0.0.1"])
    dialer = Dialer(guard=AddressGuard(LOOPBACK), resolver=resolver)
    async with OriginTransport(dialer, ssl.create_default_context(), **limits) as transport:
        yield transport
    resolver.close()


async def get(transport: OriginTransport, url: str) -> None:
    begin_progress()
    response = await transport.handle_async_request(httpx2.Request("GET", url))
    await response.aread()


async def _until_closed(receiver: Receiver) -> None:
    async with asyncio.timeout(PATIENCE):
        while receiver.open_connections:  # noqa: ASYNC110 (the receiver has no event for it)
            await asyncio.sleep(0.01)


class _Asked(list[str]):
    """The names that were asked for; `release` lets the hanging lookups answer."""

    def __init__(self) -> None:
        super().__init__()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def wait(self) -> None:
        self._released.wait(30)


@asynccontextmanager
async def _hanging_resolver(but: str = "") -> AsyncIterator[tuple[Lookup, _Asked]]:
    asked = _Asked()

    def hanging(host: str) -> Sequence[str]:
        asked.append(host)
        if host != but:
            asked.wait()
        return ["127.0.0.1"]

    try:
        yield hanging, asked
    finally:
        asked.release()


async def test_a_connection_given_up_in_the_moment_it_opens_does_not_count_as_open(
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
