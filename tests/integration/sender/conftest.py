"""A sender and a test receiver on loopback. Every test runs on asyncio's loop and on uvloop."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
import trustme

from hookfast.deliveries.outcome import Outcome
from hookfast.sender import AddressGuard, Sender
from hookfast.telemetry import instruments
from tests.support.receiver import Receiver

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The certificate authority that `sender` trusts."""
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def sender(trusting: ssl.SSLContext) -> AsyncIterator[Sender]:
    async with Sender(guard=AddressGuard(LOOPBACK), ssl_context=trusting) as sender:
        yield sender


async def post(sender: Sender, url: str, **options: object) -> Outcome:
    """POST a small request and return its outcome; `options` are those of the sender."""
    return await sender.post(url, headers={}, body=b"{}", **{"timeout": 5.0, **options})


def repeats() -> int:
    """Return how many requests this process sent once more because their connection ended."""
    return int(instruments.REPEATED_REQUESTS.total(cause="connection"))
