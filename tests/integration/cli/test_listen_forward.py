"""What `listen` forwards to is a server under development: it may answer anything, for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from hookfast.cli.remote.listen_forward import Forwarder
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
    """`forwarding("/path", response_seconds=1)`: to this path of the receiver."""
    made: list[Forwarder] = []

    def make(path: str, *, response_seconds: float = PATIENCE) -> Forwarder:
        made.append(
            Forwarder(
                receiver.url(path),
                secret=generate_secret(),
                allow_remote=False,
                response_seconds=response_seconds,
            )
        )
        return made[-1]

    yield make
    for forwarder in made:
        await forwarder.aclose()


@pytest.mark.parametrize("path", ["/drip-headers/0.05", "/drip-body/0.05", "/endless-interim/0.05"])
async def test_an_answer_that_keeps_coming_is_waited_for_only_so_long(
    forwarding: Forwarding, path: str
) -> None:
    forwarder = forwarding(path, response_seconds=_NOT_IN_TIME)
    outcome = await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    assert (outcome.error, outcome.accepted) == ("no answer within 0.3 s", False)
    assert not outcome.away  # it was seen


@pytest.mark.parametrize("path", ["/endless-body", "/endless-chunks", "/gzip-bomb"])
async def test_of_an_endless_answer_the_start_is_enough(forwarding: Forwarding, path: str) -> None:
    outcome = await within(PATIENCE, forwarding(path).send(_EVENT, attempt=1))
    assert (outcome.status, outcome.error) == (200, None)


async def test_after_an_answer_that_was_cut_the_next_event_goes_on(
    forwarding: Forwarding, receiver: Receiver
) -> None:
    receiver.routes["/hook"] = "/endless-body"
    forwarder = forwarding("/hook")
    await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    receiver.routes["/hook"] = "/status/503"
    outcome = await within(PATIENCE, forwarder.send(_EVENT, attempt=1))
    assert outcome.status == 503
