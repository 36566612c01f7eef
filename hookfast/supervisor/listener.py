"""The API's listening socket."""

from __future__ import annotations

import socket
from typing import Protocol

from hookfast.connections.listening import limit_unsent
from hookfast.errors import Misconfigured

BACKLOG = 2048


class Address(Protocol):
    """An object with the host and port to listen on: the settings, or a plan."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def listen(at: Address) -> socket.socket:
    """Open the API's listening socket. Raises Misconfigured if it cannot listen on its address."""
    try:
        family, *_, address = socket.getaddrinfo(
            at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:  # UnicodeError: the host is not a valid name
        why = getattr(error, "strerror", None) or error
        raise Misconfigured(
            f"the API cannot listen on {at.host}:{at.port}: {why}. Set HOOKFAST_PORT "
            "(0 takes a free port) or HOOKFAST_HOST"
        ) from None
    # accepted connections inherit it; uvloop would set it, and asyncio does not on such sockets
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit_unsent(listener)
    return listener
