"""The demo's receiver: checks every signature the way a customer would, then answers by mood.

It uses nothing of ours to verify, so that what it says about the signatures means something.
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

from hookfast.cli.demo.scene import RECEIVERS, Mood

_SLOW_SECONDS = 2.0
_FAILURES = 2
_TOLERANCE_SECONDS = 300
_OUTAGE_EVERY, _OUTAGE_SECONDS = 300.0, 25.0

_MOODS = {receiver.name: receiver.mood for receiver in RECEIVERS}


@dataclass(slots=True)
class Receiver:
    """What came in. `secrets` are by receiver name; whoever creates an endpoint adds its own."""

    port: int
    secrets: Mapping[str, str]
    verified: int = 0
    refused: int = 0
    _seen: Counter[str] = field(default_factory=Counter)
    _outages_since: float | None = None  # the first delivery to it

    def url(self, name: str) -> str:
        """The endpoint URL of the receiver with this name."""
        return f"http://127.0.0.1:{self.port}/{name}"

    async def challenge(self, request: Request) -> Response:
        """Agree to URL verification: send the challenge back."""
        challenge = request.headers.get("x-hook-challenge", "")
        return Response(headers={"X-Hook-Challenge": challenge})

    async def receive(self, request: Request) -> Response:
        """Take a delivery; 401 when either of its signatures is wrong."""
        name = request.path_params["name"]
        body = await request.body()
        secret = self.secrets.get(name, "")
        if not verify_hook(secret, request.headers, body) or not verify_standard(
            secret, request.headers, body
        ):
            self.refused += 1
            return Response("wrong signature", status_code=401)
        self.verified += 1
        return await self._answer(_MOODS[name], request.headers["webhook-id"])

    async def _answer(self, mood: Mood, message_id: str) -> Response:
        match mood:
            case Mood.HEALTHY:
                return Response("thanks")
            case Mood.FLAKY:
                self._seen[message_id] += 1
                if self._seen[message_id] <= _FAILURES:
                    return Response("not now", status_code=503)
                return Response("thanks, at last")
            case Mood.SLOW:
                await asyncio.sleep(_SLOW_SECONDS)
                return Response("thanks for waiting")
            case Mood.BROKEN:
                return Response("out of order", status_code=500)
            case Mood.GONE:
                return Response("we have moved", status_code=410)
            case Mood.OUTAGES:
                if self._outages_since is None:
                    self._outages_since = time.monotonic()
                if (time.monotonic() - self._outages_since) % _OUTAGE_EVERY < _OUTAGE_SECONDS:
                    return Response("down for maintenance", status_code=503)
                return Response("thanks")
            case _:
                assert_never(mood)


def verify_hook(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether `X-Hook-Signature` signs `timestamp.body`, and lately. While a secret is rotated the
    header lists a signature per secret; one that fits is enough."""
    timestamp = headers.get("x-hook-timestamp", "")
    signed = hmac.new(_key(secret), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return _recent(timestamp) and any(
        hmac.compare_digest(one.strip(), f"sha256={signed}")
        for one in headers.get("x-hook-signature", "").split(",")
    )


def verify_standard(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether `webhook-signature` signs `id.timestamp.body`, as Standard Webhooks has it."""
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
async def receiving(wanted_port: int, *, secrets: Mapping[str, str]) -> AsyncIterator[Receiver]:
    """The receiver, serving on loopback while the block lasts: on `wanted_port`, or on a free one
    where that is taken (0: any free one)."""
    with _listening(wanted_port) as listener:
        receiver = Receiver(port=listener.getsockname()[1], secrets=secrets)
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
    """Leaves the signals to `up`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening(wanted_port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", wanted_port))
    except OSError:
        listener = socket.create_server(("127.0.0.1", 0))
    # What is accepted inherits it; asyncio sets it on no socket of `create_server`'s. Without it an
    # answer's body waits 40 ms for the delayed ACK of its head, and the demo shows that.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
