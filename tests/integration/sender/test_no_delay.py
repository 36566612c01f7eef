"""The end of a request is sent without waiting for the ACK of its beginning."""

from __future__ import annotations

import socket

import pytest

from hookfast.sender import AddressGuard, Sender
from hookfast.sender.dial import connect_tcp
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio


async def test_nagles_algorithm_is_off_in_every_event_loop(receiver: Receiver) -> None:
    opened: list[socket.socket] = []

    async def connect(address: str, port: int) -> socket.socket:
        opened.append(await connect_tcp(address, port))
        return opened[-1]

    async with Sender(guard=AddressGuard(LOOPBACK), connect=connect) as sender:
        assert (await post(sender, receiver.url())).succeeded
        [connection] = opened  # kept for the next request
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
