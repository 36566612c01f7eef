"""What receivers cost a worker that close connections, or demand OAuth 2.0 or mutual TLS.

CPU is that of `Sender.post` alone, in this process, in microseconds per POST; the receivers are a
process of their own (`bench.sinks`). Each turn measures all rows, so that changes in the machine's
speed affect all of them, and a figure is the median of the turns.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import count
from pathlib import Path

import trustme

from bench.delivery.figures import Posts
from bench.delivery.progress import Progress
from bench.sinks import ANSWERS, IDLE_SECONDS
from hookfast.endpoints.credentials import PUBLIC, Access, OAuth2, TlsIdentity
from hookfast.sender import AddressGuard, Sender
from hookfast.telemetry import instruments

_TURNS = 3
_REQUESTS = 480
_AT_ONCE = 16
_BURST = 32
_BODY = b'{"data":"%s"}' % (b"x" * 350)
_HEADERS = {"Content-Type": "application/json", "webhook-signature": "v1," + "0" * 44}


@dataclass(frozen=True, slots=True)
class _Row:
    """Requests to one receiver. `pause`: they leave in bursts, so many seconds apart, which is how
    long the impatient receiver keeps an idle connection."""

    name: str
    url: str
    access: Access = PUBLIC
    pause: float = 0.0


async def measure_receivers(progress: Progress) -> list[Posts]:
    """Measure every row."""
    progress.say("receivers: POSTs to those that close connections, with OAuth 2.0, with mTLS")
    authority = trustme.CA()
    found: defaultdict[str, list[Posts]] = defaultdict(list)
    with _sinks(authority) as ports:
        rows = _rows(ports, authority)
        async with _sender(authority) as sender:
            for turn in range(_TURNS + 1):
                for row in rows:
                    posts = await _measured(sender, row)
                    if turn:  # the first one warms up
                        found[row.name].append(posts)
    return [_median(turns) for turns in found.values()]


def _rows(ports: Mapping[str, int], authority: trustme.CA) -> list[_Row]:
    plain, few, impatient = (
        f"http://127.0.0.1:{ports[name]}" for name in ("plain", "few", "impatient")
    )
    tls, mutual = (f"https://127.0.0.1:{ports[name]}" for name in ("tls", "mutual"))
    oauth2 = Access(authentication=(OAuth2(f"{plain}/token", "bench", "secret"),))
    certificate = authority.issue_cert("bench@example.com")
    identity = TlsIdentity(
        certificate=b"".join(pem.bytes() for pem in certificate.cert_chain_pems).decode(),
        private_key=certificate.private_key_pem.bytes().decode(),
        authorities=authority.cert_pem.bytes().decode(),
    )
    certified = Access(tls=(identity,))
    both = Access(authentication=oauth2.authentication, tls=(identity,))
    return [
        _Row("HTTP", f"{plain}/"),
        _Row("HTTP, OAuth 2.0", f"{plain}/", oauth2),
        _Row("TLS", f"{tls}/"),
        _Row("mTLS", f"{mutual}/", certified),
        _Row("mTLS, OAuth 2.0", f"{mutual}/", both),
        _Row("HTTP, new connections", f"{plain}/once"),
        _Row("TLS, new connections", f"{tls}/once"),
        _Row("mTLS, new connections", f"{mutual}/once", certified),
        _Row(f"HTTP, closed after {ANSWERS}", f"{few}/"),
        _Row("HTTP, bursts", f"{plain}/", pause=IDLE_SECONDS),
        _Row("HTTP, bursts, closed idle", f"{impatient}/", pause=IDLE_SECONDS),
    ]


async def _measured(sender: Sender, row: _Row) -> Posts:
    results: Counter[bool] = Counter()
    numbers = count()

    async def post() -> None:
        outcome = await sender.post(
            row.url, headers=_HEADERS, body=_BODY, timeout=30.0, access=row.access
        )
        results[outcome.succeeded] += 1

    async def work() -> None:
        while next(numbers) < _REQUESTS:
            await post()

    await asyncio.gather(*(post() for _ in range(_AT_ONCE)))  # opens the connections
    results.clear()
    repeated, before = _repeated(), time.process_time()
    if row.pause:
        for _ in range(_REQUESTS // _BURST):
            await asyncio.gather(*(post() for _ in range(_BURST)))
            await asyncio.sleep(row.pause)
    else:
        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    spent = time.process_time() - before
    return Posts(
        receiver=row.name,
        microseconds=spent / _REQUESTS * 1e6,
        sent=results.total(),
        repeated=_repeated() - repeated,
        failed=results[False],
    )


def _median(turns: list[Posts]) -> Posts:
    return Posts(
        receiver=turns[0].receiver,
        microseconds=statistics.median(posts.microseconds for posts in turns),
        sent=sum(posts.sent for posts in turns),
        repeated=sum(posts.repeated for posts in turns),
        failed=sum(posts.failed for posts in turns),
    )


def _repeated() -> int:
    return int(instruments.REPEATED_REQUESTS.total(cause="connection"))


@asynccontextmanager
async def _sender(authority: trustme.CA) -> AsyncIterator[Sender]:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    guard = AddressGuard([ip_network("127.0.0.0/8")])
    async with Sender(guard=guard, ssl_context=trusting) as sender:
        yield sender


@contextmanager
def _sinks(authority: trustme.CA) -> Iterator[dict[str, int]]:
    """Run the receivers, and yield their ports by name."""
    with tempfile.TemporaryDirectory() as folder:
        server = authority.issue_cert("127.0.0.1")
        server.private_key_and_cert_chain_pem.write_to_path(str(Path(folder) / "server.pem"))
        authority.cert_pem.write_to_path(str(Path(folder) / "authority.pem"))
        command = (sys.executable, "-m", "bench.sinks", folder)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                ports: dict[str, int] = json.loads(process.stdout.readline())
                yield ports
            finally:
                process.terminate()
