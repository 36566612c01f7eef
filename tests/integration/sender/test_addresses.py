"""How the sender resolves names, checks their addresses and chooses one to connect to."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, OwnAddress, Sender
from hookfast.sender.resolver import Lookup
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.receiver import Receiver
from tests.support.waiting import within

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def resolving(*addresses: str) -> AsyncIterator[Sender]:
    """Create a sender that resolves every name to these addresses."""
    async with Sender(guard=AddressGuard(LOOPBACK), lookup=lambda host: addresses) as sender:
        yield sender


async def test_a_name_is_resolved_once_per_connection(receiver: Receiver) -> None:
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
            "x.example resolves to a blocked address (private).",
        ),
        (
            ["127.0.0.1", "169.254.169.254"],
            "x.example resolves to a blocked address (link-local).",
        ),
        (
            ["::ffff:10.0.0.1"],
            "x.example resolves to a blocked address (IPv4-mapped).",
        ),
    ],
)
async def test_nothing_is_connected_to_when_one_address_is_blocked(
    receiver: Receiver, addresses: list[str], sentence: str
) -> None:
    async with resolving(*addresses) as sender:
        outcome = await post(sender, receiver.url(host="x.example"))
    assert (outcome.result, outcome.error) == (Result.ADDRESS, sentence)
    assert receiver.connections == 0


async def test_endpoint_at_the_services_own_address_is_not_connected_to(receiver: Receiver) -> None:
    own = OwnAddress.of(receiver.url("/"))
    async with Sender(guard=AddressGuard(LOOPBACK, own=own)) as sender:
        outcome = await post(sender, receiver.url("/in/src_1"))
    assert outcome.result is Result.ADDRESS
    assert outcome.error == "127.0.0.1 is blocked (this service's own address)."
    assert receiver.connections == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1"])
async def test_name_that_resolves_to_the_services_own_address_is_not_connected_to(
    receiver: Receiver, address: str
) -> None:
    own = OwnAddress.of(receiver.url("/"))
    guard = AddressGuard([*LOOPBACK, ip_network("::ffff:0:0/96")], own=own)
    async with Sender(guard=guard, lookup=lambda host: [address]) as sender:
        outcome = await post(sender, receiver.url("/in/src_1", host="x.example"))
    assert outcome.result is Result.ADDRESS
    assert outcome.error == "x.example resolves to a blocked address (this service's own address)."
    assert receiver.connections == 0


async def test_connects_only_within_the_endpoints_networks(
    sender: Sender, receiver: Receiver
) -> None:
    inside = await post(sender, receiver.url(), allowed_networks=[ip_network("127.0.0.1/32")])
    outside = await post(sender, receiver.url(), allowed_networks=[ip_network("8.8.8.0/24")])
    assert inside.succeeded
    assert outside.result is Result.ADDRESS
    assert "outside the endpoint's allowed networks" in (outside.error or "")


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


async def test_the_system_resolver_finds_localhost_and_not_an_invalid_name(
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


async def test_a_hanging_lookup_does_not_delay_another_name(receiver: Receiver) -> None:
    async with (
        _hanging_resolver(but="fast.example") as (lookup, _),
        Sender(guard=AddressGuard(LOOPBACK), lookup=lookup) as sender,
    ):
        hanging = asyncio.create_task(post(sender, "https://slow.example/", timeout=0.5))
        assert (await post(sender, receiver.url(host="fast.example"))).succeeded
        assert not hanging.done()
        await hanging


async def test_cancelling_one_request_does_not_cancel_the_lookup_of_others(
    receiver: Receiver,
) -> None:
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


async def test_the_next_address_is_tried_when_one_refuses_the_connection(
    receiver: Receiver,
) -> None:
    # 127.0.0.2 is loopback too, and nothing listens there
    async with resolving("127.0.0.2", "127.0.0.3", "127.0.0.1") as sender:
        assert (await post(sender, receiver.url(host="x.example"))).succeeded


async def test_reports_connection_refused_when_every_address_refuses(receiver: Receiver) -> None:
    async with resolving("127.0.0.2", "127.0.0.3") as sender:
        outcome = await post(sender, receiver.url(host="x.example"))
    assert outcome.result is Result.REFUSED
    assert outcome.error == (
        f"Nothing is listening at x.example:{receiver.port}: the connection was refused."
    )


async def test_a_silent_address_delays_the_next_by_a_quarter_of_a_second(
    receiver: Receiver,
) -> None:
    with socket.socket() as silent:  # a full accept queue drops new connections
        silent.bind(("127.66.0.1", receiver.port))
        silent.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.66.0.1", receiver.port))
            await asyncio.sleep(0.05)
            async with resolving("127.66.0.1", "127.0.0.1") as sender:
                outcome = await within(0.9, post(sender, receiver.url(host="x.example")))
        finally:
            for filler in fillers:
                filler.close()
    assert outcome.succeeded
    assert outcome.duration_ms >= 250


class _Asked(list[str]):
    """The names that were looked up; `release` lets the hanging lookups return."""

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
