"""`listen` forwards to a server under development, whose responses may be endless."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from hookfast.cli.remote.listen.forward import Forwarder
from hookfast.signing.signature import generate_secret
from hookfast.telemetry.traceparent import new as new_traceparent
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

_EVENT = {
    "id": "evt_1",
    "type": "order.invoice.paid",
    "traceparent": new_traceparent(),
    "content_type": "application/json",
    "headers": [],
    "body": "{}",
}
_NOT_IN_TIME = 0.3

Forwarding = Callable[..., Forwarder]


@pytest.fixture
async def forwarding(receiver: Receiver) -> AsyncIterator[Forwarding]:
    """A function that returns a forwarder to a path of the receiver."""
    forwarders: list[Forwarder] = []

    def make(path: str, *, response_seconds: float = PATIENCE) -> Forwarder:
        forwarders.append(
            Forwarder(
                receiver.url(path),
                secret=generate_secret(),
                allow_remote=False,
                response_seconds=response_seconds,
            )
        )
        return forwarders[-1]

    yield make
    for forwarder in forwarders:
        await forwarder.aclose()


@pytest.mark.parametrize("path", ["/drip-headers/0.05", "/drip-body/0.05", "/endless-interim/0.05"])
async def test_slow_response_ends_at_the_time_limit(forwarding: Forwarding, path: str) -> None:
    forwarder = forwarding(path, response_seconds=_NOT_IN_TIME)
    outcome = await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    assert (outcome.error, outcome.accepted) == ("no response within 0.3 s", False)
    assert not outcome.away  # the server has seen it


@pytest.mark.parametrize("path", ["/endless-body", "/endless-chunks", "/gzip-bomb"])
async def test_endless_response_is_read_up_to_its_limit(forwarding: Forwarding, path: str) -> None:
    outcome = await within(PATIENCE, forwarding(path).send(_EVENT, attempt=1))
    assert (outcome.status, outcome.error) == (200, None)


async def test_next_event_is_forwarded_after_a_truncated_response(
    forwarding: Forwarding, receiver: Receiver
) -> None:
    receiver.routes["/hook"] = "/endless-body"
    forwarder = forwarding("/hook")
    await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    receiver.routes["/hook"] = "/status/503"
    outcome = await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    assert outcome.status == 503


async def test_headers_of_a_received_request_are_forwarded_byte_for_byte(
    forwarding: Forwarding, receiver: Receiver
) -> None:
    received = {"headers": [["X-Name", "Müller"], ["X-Tab", "a\tb"]], "body": "not JSON"}
    outcome = await within(PATIENCE, forwarding("/hook").send(_EVENT | received, attempt=1))
    assert (outcome.status, outcome.error) == (200, None)
    [request] = receiver.requests
    assert (request.headers["x-name"], request.headers["x-tab"]) == ("Müller", "a\tb")
