"""Options of listening sockets, which each accepted connection inherits."""

from __future__ import annotations

import socket
from typing import Final

_UNSENT_BYTES: Final = 65_536
_UNREAD_MILLISECONDS: Final = 60_000


def limit_unsent(listener: socket.socket) -> None:
    """Limit what the system holds of answers that are not read. Systems without these options, such
    as macOS, hold as much as they like.

    Without a limit, Linux holds 4 MB for each connection that reads nothing, and a client that
    reads slowly seems to read nothing for a minute, because the system asks for more only when a
    third of that has left. After a minute without any progress it gives a connection up; that also
    ends those that the process has closed.
    """
    for name, value in (
        ("TCP_NOTSENT_LOWAT", _UNSENT_BYTES),
        ("TCP_USER_TIMEOUT", _UNREAD_MILLISECONDS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
