"""The demo's receiver: verifies every signature as a customer would, then answers by behaviour.

It verifies without Hookfast's code, so that its result proves that the signatures are right.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import assert_never

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hookfast.cli.demo.scene import ENDPOINTS, Behaviour

_SLOW_SECONDS = 2.0
_FAILURES = 2
_TOLERANCE_SECONDS = 300
_OUTAGE_SECONDS = 15.0

_BEHAVIOURS = {endpoint.name: endpoint.behaviour for endpoint in ENDPOINTS}


@dataclass(slots=True)
class Receiver:
    """The receiver of all endpoints, which counts verified and rejected requests. `secrets` are by
    endpoint name; the code that creates an endpoint adds its secret. `outage_every` is the time in
    seconds from the beginning of one outage to the next."""

    port: int
    secrets: Mapping[str, str]
    outage_every: float = 300.0
    verified: int = 0
    rejected: int = 0
    _seen: Counter[str] = field(default_factory=Counter)
    _outages_since: float | None = None  # the time of the first delivery

    def url(self, name: str) -> str:
        """Return the URL of the endpoint with this name."""
        return f"http://127.0.0.1:{self.port}/{name}"

    async def challenge(self, request: Request) -> Response:
        """Agree to the URL verification by sending the challenge back."""
        challenge = request.headers.get("x-hook-challenge", "")
        return Response(headers={"X-Hook-Challenge": challenge})

    async def receive(self, request: Request) -> Response:
        """Accept a delivery, or answer 401 if one of its two signatures is wrong."""
        name = request.path_params["name"]
        body = await request.body()
        secret = self.secrets.get(name, "")
        if not verify_hook(secret, request.headers, body) or not verify_standard(
            secret, request.headers, body
        ):
            self.rejected += 1
            return Response("wrong signature", status_code=401)
        self.verified += 1
        return await self._answer(_BEHAVIOURS[name], request.headers["webhook-id"])

    async def _answer(self, behaviour: Behaviour, message_id: str) -> Response:
        match behaviour:
            case Behaviour.HEALTHY:
                return Response("thanks")
            case Behaviour.FLAKY:
                self._seen[message_id] += 1
                if self._seen[message_id] <= _FAILURES:
                    return Response("not now", status_code=503)
                return Response("thanks, at last")
            case Behaviour.SLOW:
                await asyncio.sleep(_SLOW_SECONDS)
                return Response("thanks for waiting")
            case Behaviour.BROKEN:
                return Response("out of order", status_code=500)
            case Behaviour.GONE:
                return Response("we have moved", status_code=410)
            case Behaviour.OUTAGES:
                if self._outages_since is None:
                    self._outages_since = time.monotonic()
                if (time.monotonic() - self._outages_since) % self.outage_every < _OUTAGE_SECONDS:
                    return Response("down for maintenance", status_code=503)
                return Response("thanks")
            case _:
                assert_never(behaviour)


def verify_hook(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether `X-Hook-Signature` signs `timestamp.body`, at a recent time. During a rotation the
    header lists a signature per secret, and one that matches is enough."""
    timestamp = headers.get("x-hook-timestamp", "")
    signed = hmac.new(_key(secret), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return _recent(timestamp) and any(
        hmac.compare_digest(one.strip(), f"sha256={signed}")
        for one in headers.get("x-hook-signature", "").split(",")
    )


def verify_standard(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether `webhook-signature` signs `id.timestamp.body`, as in Standard Webhooks."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    message = f"{message_id}.{timestamp}.".encode() + body
    signed = base64.b64encode(hmac.new(_key(secret), message, hashlib.sha256).digest()).decode()
    return _recent(timestamp) and any(
        hmac.compare_digest(one, f"v1,{signed}")
        for one in headers.get("webhook-signature", "").split(" ")
    )


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def _recent(timestamp: str) -> bool:
    return timestamp.isdecimal() and abs(time.time() - int(timestamp)) <= _TOLERANCE_SECONDS


@asynccontextmanager
async def run_receiver(
    port: int, *, secrets: Mapping[str, str], outage_every: float
) -> AsyncIterator[Receiver]:
    """Serve the receiver on loopback during the block: on `port`, or on a free port if that is
    taken or 0."""
    with _listen(port) as listener:
        receiver = Receiver(
            port=listener.getsockname()[1], secrets=secrets, outage_every=outage_every
        )
        app = Starlette(
            routes=[
                Route("/{name}", receiver.challenge, methods=["GET"]),
                Route("/{name}", receiver.receive, methods=["POST"]),
            ]
        )
        server = _Server(
            uvicorn.Config(app, lifespan="off", log_config=None, log_level="warning", ws="none")
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="demo receiver")
        try:
            yield receiver
        finally:
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """A server that handles no signals, because the demo does."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError:
        listener = socket.create_server(("127.0.0.1", 0))
    # Accepted connections inherit this option, which asyncio does not set on sockets made by
    # `create_server`. Without it, the body of a response waits 40 ms for the delayed ACK of its
    # head, which shows in the demo.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
