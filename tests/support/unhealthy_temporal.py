"""A server at Temporal's address that is silent, or that hangs up in one of several ways."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Manner = Literal["silent", "flapping"]


@contextmanager
def unhealthy_temporal(manner: Manner) -> Iterator[str]:
    """Yield the address of a server that accepts connections. `silent`: it never sends a byte.
    `flapping`: it closes each one at once, in turn with a reset, after garbage, and after a
    greeting."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def serve() -> None:
            with suppress(OSError):  # the listener was closed
                for number in itertools.count():
                    connection, _ = listener.accept()
                    if manner == "silent":
                        accepted.append(connection)
                    else:
                        _hang_up(connection, number % 3)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host, port = listener.getsockname()
        yield f"{host}:{port}"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        thread.join()
    for connection in accepted:
        connection.close()


def _hang_up(connection: socket.socket, how: int) -> None:
    with connection, suppress(OSError):
        if how == 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == 1:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        else:
            connection.sendall(b"\0\0\0\x04\0\0\0\0\0")  # an empty SETTINGS frame of HTTP/2
