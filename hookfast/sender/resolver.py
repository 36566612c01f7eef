"""Resolve names to addresses through the system's resolver, in threads.

`getaddrinfo` blocks and cannot be interrupted, so it has its own threads: a name server that hangs
must not block the threads that others use (uvloop has four, shared with file access). Overlapping
lookups of a name share one thread, however many requests wait. A domain can use only a few threads,
so that an owner whose name server never responds cannot occupy all of them with invented names.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hookfast.sender.addresses import is_address

Lookup = Callable[[str], Sequence[str]]
"""Blocks, and returns the addresses of a host name; raises `socket.gaierror`."""

_THREADS = 256  # all of them may be blocked in getaddrinfo
_PER_DOMAIN = 8


def system_lookup(host: str) -> Sequence[str]:
    """Return every distinct address of `host`, in the order of RFC 6724."""
    # As bytes, so that Python's own codec (IDNA 2003) does not convert the name a second time.
    answers = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))


class Resolver:
    """Runs lookups in threads, for one event loop."""

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hookfast-dns")
        self._running: dict[str, asyncio.Future[Sequence[str]]] = {}
        self._busy: Counter[str] = Counter()
        self._freed: dict[str, asyncio.Event] = {}

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of `host`: itself if it is one. Raises `socket.gaierror` when it has
        none."""
        if is_address(host):
            return (host,)
        domain = _domain(host)
        while (running := self._running.get(host)) is None:
            if self._busy[domain] < _PER_DOMAIN:
                running = self._start(host, domain)
                break
            await self._freed.setdefault(domain, asyncio.Event()).wait()
        addresses = await asyncio.shield(running)  # a cancelled waiter must not cancel the others
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return addresses

    def close(self) -> None:
        """Start no more lookups; running ones end by themselves."""
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
            done.exception()  # marks it as retrieved: all waiters may be cancelled


def _domain(host: str) -> str:
    """Return the domain that most likely has a single owner: the last two labels, or three when
    those two belong to a registry (`co.uk`)."""
    labels = host.split(".")
    registry = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3:] if registry else labels[-2:])
