"""Names to addresses, through the system's resolver.

`getaddrinfo` blocks and cannot be interrupted, so it runs in threads of its own: a name server that
hangs must not take the threads that others use (uvloop has four, shared with file access). Lookups
of one name that overlap are one lookup, so a name that hangs holds one thread, however many wait;
and the names of one domain hold a few at most, so that whose name server never answers cannot take
them all by making names up.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Lookup = Callable[[str], Sequence[str]]
"""A blocking function from a host name to its addresses; raises `socket.gaierror`."""

_THREADS = 256  # asleep in getaddrinfo all of them, if it comes to that
_PER_DOMAIN = 8


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
        self._busy: Counter[str] = Counter()
        self._freed: dict[str, asyncio.Event] = {}

    async def resolve(self, host: str) -> Sequence[str]:
        """The addresses of `host`. Raises `socket.gaierror` when it has none."""
        domain = _domain(host)
        while (running := self._running.get(host)) is None:
            if self._busy[domain] < _PER_DOMAIN:
                running = self._start(host, domain)
                break
            await self._freed.setdefault(domain, asyncio.Event()).wait()
        return await asyncio.shield(running)  # one waiter that gives up leaves the others theirs

    def close(self) -> None:
        """Start no more lookups; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self, host: str, domain: str) -> asyncio.Future[Sequence[str]]:
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, self._lookup, host)
        self._running[host] = running
        self._busy[domain] += 1
        running.add_done_callback(lambda done: self._ended(host, domain, done))
        return running

    def _ended(self, host: str, domain: str, done: asyncio.Future[Sequence[str]]) -> None:
        del self._running[host]
        self._busy[domain] -= 1
        if not self._busy[domain]:
            del self._busy[domain]
        if (freed := self._freed.pop(domain, None)) is not None:
            freed.set()
        if not done.cancelled():
            done.exception()  # read it: everyone who asked may have given up already


def _domain(host: str) -> str:
    """What one owner's names most likely have in common: the last two labels, or three where those
    are a registry's (`co.uk`)."""
    labels = host.split(".")
    registry = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3:] if registry else labels[-2:])
