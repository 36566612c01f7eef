"""The cost of one signed POST for a worker: microseconds of CPU, beside bare HTTP clients.

`python -m bench.post [COUNT]` makes COUNT requests (default 2000) a turn to a sink on loopback, at
1, 16 and 64 at once, from one process with uvloop, as a worker has. Each turn measures all rows, so
that changes in the machine's speed affect all of them. A figure is the median of five turns.

The rows: prepared bytes on a bare connection; httpcore2 and httpx2 with fixed headers; the sender;
the headers and signatures of two profiles, and the sender; the same with spans and measures as an
attempt has them without a collector; and the same to 500 origins in turn.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from ipaddress import ip_network
from itertools import count, cycle
from typing import Any

import httpcore2
import httpx2
import uvloop

from activities.attempt import observed_attempt
from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.life import Life
from hookfast.deliveries.outcome import Outcome
from hookfast.dispatch.request import outgoing_request
from hookfast.endpoints.circuit import EndpointState, Gate
from hookfast.endpoints.credentials import PUBLIC
from hookfast.sender import AddressGuard, Sender
from hookfast.signing.signature import DEFAULT_PROFILES, HashName
from hookfast.storage.deliveries.outgoing import EventBody, Outgoing
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint
from hookfast.telemetry import providers, spans

_TURNS = 5
_CONCURRENCIES = (1, 16, 64)
_ORIGINS = 500
_BODY = b'{"id":"evt_1","type":"order.invoice.paid","data":"%s"}' % (b"x" * 300)
_ID = "0190a5d2f8e17b3c8d4e5f6071829304"

Post = Callable[[], Awaitable[object]]


def _fixed_headers(port: int) -> dict[str, str]:
    """Return about as many headers as a signed request has."""
    return {
        "Host": f"127.0.0.1:{port}",
        "Accept-Encoding": "identity",
        "X-Shop": "1",
        "Content-Type": "application/json",
        "User-Agent": "Hookfast/1",
        "X-Hook-Id": f"dlv_{_ID}",
        "X-Hook-Topic": "order.invoice.paid",
        "X-Hook-Attempt": "1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "X-Hook-Signature": "sha256=" + "0" * 64,
        "X-Hook-Timestamp": "1795413940",
        "webhook-id": f"dlv_{_ID}",
        "webhook-timestamp": "1795413940",
        "webhook-signature": "v1," + "0" * 44,
        "Content-Length": str(len(_BODY)),
    }


class _Bare(asyncio.Protocol):
    """A connection that takes every read for an answer."""

    answered: asyncio.Future[None]

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.answered.set_result(None)


@asynccontextmanager
async def _bare(port: int) -> AsyncIterator[Post]:
    loop = asyncio.get_running_loop()
    lines = "".join(f"{name}: {value}\r\n" for name, value in _fixed_headers(port).items())
    request = f"POST /hook HTTP/1.1\r\n{lines}\r\n".encode() + _BODY
    idle = []
    for _ in range(max(_CONCURRENCIES)):
        idle.append((await loop.create_connection(_Bare, "127.0.0.1", port))[1])

    async def post() -> None:
        connection = idle.pop()
        connection.answered = loop.create_future()
        connection.transport.write(request)
        await connection.answered
        idle.append(connection)

    yield post
    for connection in idle:
        connection.transport.close()


@asynccontextmanager
async def _httpcore2(port: int) -> AsyncIterator[Post]:
    headers = [*_fixed_headers(port).items()]
    async with httpcore2.AsyncConnectionPool(max_connections=256) as pool:

        async def post() -> None:
            url = f"http://127.0.0.1:{port}/hook"
            answer = await pool.request("POST", url, headers=headers, content=_BODY)
            assert answer.status == 200

        yield post


@asynccontextmanager
async def _httpx2(port: int) -> AsyncIterator[Post]:
    headers = _fixed_headers(port)
    limits = httpx2.Limits(max_connections=256, max_keepalive_connections=256)
    async with httpx2.AsyncHTTPTransport(limits=limits) as transport:

        async def post() -> None:
            url = f"http://127.0.0.1:{port}/hook"
            request = httpx2.Request("POST", url, headers=headers, content=_BODY)
            answer = await transport.handle_async_request(request)
            await answer.aread()
            await answer.aclose()
            assert answer.status_code == 200

        yield post


@asynccontextmanager
async def _sender_alone(port: int) -> AsyncIterator[Post]:
    headers = _fixed_headers(port)
    async with _sender() as sender:

        async def post() -> None:
            outcome = await _posted(sender, f"http://127.0.0.1:{port}/hook", headers, _BODY)
            assert outcome.succeeded, outcome

        yield post


@asynccontextmanager
async def _signed(port: int) -> AsyncIterator[Post]:
    outgoing = _outgoing(f"http://127.0.0.1:{port}/hook")
    async with _sender() as sender:
        yield lambda: _sign_and_post(sender, outgoing, outgoing.event.traceparent)


@asynccontextmanager
async def _observed(port: int) -> AsyncIterator[Post]:
    outgoing = _outgoing(f"http://127.0.0.1:{port}/hook")
    async with _sender() as sender:
        yield lambda: _observe_and_post(sender, outgoing)


@asynccontextmanager
async def _many_origins(port: int) -> AsyncIterator[Post]:
    names = cycle([_outgoing(f"http://h{n}.example:{port}/hook") for n in range(_ORIGINS)])
    async with _sender() as sender:
        yield lambda: _observe_and_post(sender, next(names))


@asynccontextmanager
async def _sender() -> AsyncIterator[Sender]:
    """Return a sender for which every name is this machine."""
    guard = AddressGuard([ip_network("127.0.0.0/8")])
    async with Sender(guard=guard, lookup=lambda _: ["127.0.0.1"]) as sender:
        yield sender


async def _observe_and_post(sender: Sender, outgoing: Outgoing) -> None:
    """Observe and send as `activities.attempt` does."""
    attempt = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
    with observed_attempt(attempt, outgoing, started_at=utc_now()) as observed:
        with spans.request(
            outgoing.endpoint.url, outgoing.event.traceparent, resend_count=0
        ) as span:
            outcome = await _sign_and_post(sender, outgoing, span.traceparent)
            span.answered(outcome.result, outcome.status_code, succeeded=outcome.succeeded)
        observed.ended(outcome, None)


async def _sign_and_post(sender: Sender, outgoing: Outgoing, traceparent: str) -> Outcome:
    endpoint = outgoing.endpoint
    headers, body = await outgoing_request(
        outgoing.event.body,
        endpoint=endpoint,
        message_id=outgoing.delivery_id,
        event_type=outgoing.event_type,
        attempt=1,
        timestamp=int(utc_now().timestamp()),
        traceparent=traceparent,
    )
    outcome = await _posted(sender, endpoint.url, headers, body)
    assert outcome.succeeded, outcome
    return outcome


async def _posted(sender: Sender, url: str, headers: dict[str, str], body: bytes) -> Outcome:
    return await sender.post(url, headers=headers, body=body, timeout=30.0, confirm=_confirm)


async def _confirm() -> None:
    pass


def _outgoing(url: str) -> Outgoing:
    now = datetime.now(UTC)
    return Outgoing(
        delivery_id=f"dlv_{_ID}",
        event_type="order.invoice.paid",
        emitted_at=now,
        due_from=now,
        payload="envelope",
        event=EventBody(
            event_id=f"evt_{_ID}",
            tenant_id=f"tnt_{_ID}",
            created_at=now,
            body=_BODY,
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            inbox_id=None,
        ),
        endpoint=CachedEndpoint(
            endpoint_id=f"ep_{_ID}",
            tenant_id=f"tnt_{_ID}",
            url=url,
            updated_at=now,
            keys=(b"k" * 32,),
            ed25519=(),
            rsa=None,
            profiles=DEFAULT_PROFILES,
            hash_name=HashName.SHA256,
            headers={"X-Shop": "1"},
            encryption=None,
            plan="default",
            timeout_seconds=30.0,
            limits=None,
            allowed_networks=(),
            access=PUBLIC,
        ),
        gate=Gate(endpoint_state=EndpointState.ENABLED),
        raw=None,
        mapping=None,
        plan="default",
        life=Life(),
        read_at=0.0,
        batch_id=None,
    )


_ROWS = {
    "prepared bytes, bare connection": _bare,
    "httpcore2, fixed headers": _httpcore2,
    "httpx2 transport, fixed headers": _httpx2,
    "Sender.post, fixed headers": _sender_alone,
    "headers, signatures, Sender.post": _signed,
    "the same with spans and measures": _observed,
    f"the same to {_ORIGINS} origins": _many_origins,
}


async def _microseconds(post: Post, requests: int, *, tasks: int) -> float:
    """Return the CPU per request."""
    turn = count()

    async def work() -> None:
        while next(turn) < requests:
            await post()

    before = time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return (time.process_time() - before) / requests * 1e6


async def _main(requests: int, port: int) -> None:
    providers.start("worker")
    figures: dict[tuple[str, int], list[float]] = {}
    async with AsyncExitStack() as stack:
        rows = {name: await stack.enter_async_context(row(port)) for name, row in _ROWS.items()}
        for post in rows.values():
            await _microseconds(post, max(_ORIGINS, requests // 4), tasks=max(_CONCURRENCIES))
        for _ in range(_TURNS):
            for tasks in _CONCURRENCIES:
                for name, post in rows.items():
                    spent = await _microseconds(post, requests, tasks=tasks)
                    figures.setdefault((name, tasks), []).append(spent)
    print(f"microseconds of CPU per POST, {requests} requests a turn")
    print(f"{'at once':34}" + "".join(f"{tasks:10}" for tasks in _CONCURRENCIES))
    for name in rows:
        middle = (statistics.median(figures[name, tasks]) for tasks in _CONCURRENCIES)
        print(f"{name:34}" + "".join(f"{figure:10.0f}" for figure in middle))


@contextmanager
def _sink() -> Iterator[int]:
    """Run a sink in a process of its own, and yield its port."""
    with subprocess.Popen([sys.executable, "-m", "bench.sink"], stdout=subprocess.PIPE) as sink:
        try:
            assert sink.stdout is not None
            yield int(sink.stdout.readline())
        finally:
            sink.terminate()


if __name__ == "__main__":
    with _sink() as sink_port:
        uvloop.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000, sink_port))
