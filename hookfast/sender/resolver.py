"""Names to addresses, through the system's resolver.

`getaddrinfo` blocks and cannot be interrupted, so it runs in threads of its own: a name server that
hangs must not take the threads that others use (uvloop has four, shared with file access). Lookups
of one name that overlap are one lookup, so a name that hangs holds one thread, however many wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Lookup = Callable[[str], Sequence[str]]
"""A blocking function from a host name to its addresses; raises `socket.gaierror`."""

_THREADS = 32


def system_lookup(host: str) -> Sequence[str]:
    """Every address of `host`, in the order of RFC 6724, each once."""
    # Bytes, so that no second IDNA codec (Python's, of 2003) sees the name.
    answers = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))


class Resolver:
    """Runs lookups off the event loop. For one event loop."""

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hookfast-dns")
        self._running: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of `host`. Raises `socket.gaierror` when it has none."""
        running = self._running.get(host)
        if running is None:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._threads, self._lookup, host)
            self._running[host] = running
            running.add_done_callback(lambda done: self._forget(host, done))
        return await asyncio.shield(running)  # one waiter that gives up leaves the others theirs

    def close(self) -> None:
        """Start no more lookups; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self, host: str, done: asyncio.Future[Sequence[str]]) -> None:
        del self._running[host]
        if not done.cancelled():
            done.exception()  # read it: everyone who asked may have given up already
