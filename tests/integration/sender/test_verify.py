"""URL verification: how a receiver must respond before it gets events."""

from __future__ import annotations

import pytest

from hookfast.errors import InvalidInput
from hookfast.sender import AddressGuard, Sender, verify_endpoint
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio


async def test_header_mode_sends_one_request_per_topic(sender: Sender, receiver: Receiver) -> None:
    await verify_endpoint(
        sender,
        mode="header",
        url=receiver.url("/challenge"),
        tenant_id="tnt_1",
        topics=["order.invoice.paid", "order.**"],
    )
    assert [
        (request.method, request.headers["x-hook-challenge"]) for request in receiver.requests
    ] == [("GET", "tnt_1.order.invoice.paid"), ("GET", "tnt_1.order.**")]
    assert receiver.requests[0].headers["user-agent"].startswith("Hookfast/")


@pytest.mark.parametrize("query", ["", "?", "?x=1", "?x=1&"])
async def test_query_mode_appends_a_random_challenge(
    sender: Sender, receiver: Receiver, query: str
) -> None:
    for _ in range(2):
        await verify_endpoint(
            sender,
            mode="query",
            url=receiver.url(f"/challenge-query{query}"),
            tenant_id="tnt_1",
            topics=[],
        )
    first, second = (request.path for request in receiver.requests)
    assert first != second
    assert ("x=1" in first) == ("x=1" in query)


async def test_none_mode_sends_no_request(sender: Sender, receiver: Receiver) -> None:
    await verify_endpoint(
        sender, mode="none", url=receiver.url(), tenant_id="tnt_1", topics=["a.b.c"]
    )
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("mode", "path", "reason"),
    [
        ("header", "/ok", "has no X-Hook-Challenge header"),
        ("header", "/status/404", "The server answered 404 Not Found."),
        ("header", "/redirect", "The server answered 302 Found; redirects are not followed."),
        ("header", "/close", "closed the connection without answering."),
        ("header", "/slow/5", "No answer within 0.2 s"),
        ("query", "/ok", "body is not the value of the query parameter"),
        ("query", "/status/500", "The server answered 500 Internal Server Error."),
        ("query", "/endless-body", "body is not the value of the query parameter"),
    ],
)
async def test_failed_verification_says_the_reason(
    sender: Sender, receiver: Receiver, mode: str, path: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as failed:
        await verify_endpoint(
            sender,
            mode=mode,
            url=receiver.url(path),
            tenant_id="tnt_1",
            topics=["a.b.c"],
            timeout=0.2,
        )
    assert failed.value.code == "verification_failed"
    assert failed.value.errors[0].pointer == "/url"
    assert reason in failed.value.message


async def test_a_response_with_another_challenge_fails(sender: Sender, receiver: Receiver) -> None:
    receiver.routes["/hook"] = "/fixed-challenge/tnt_2.a.b.c"
    with pytest.raises(InvalidInput, match="return it unchanged"):
        await verify_endpoint(
            sender, mode="header", url=receiver.url("/hook"), tenant_id="tnt_1", topics=["a.b.c"]
        )


async def test_verification_uses_the_same_address_guard_as_deliveries(receiver: Receiver) -> None:
    async with Sender(guard=AddressGuard()) as sender:
        with pytest.raises(InvalidInput, match="loopback"):
            await verify_endpoint(
                sender, mode="header", url=receiver.url(), tenant_id="tnt_1", topics=["a.b.c"]
            )
    assert receiver.connections == 0
