"""One event to the developer's server: signed here as a delivery would be, and sent as one POST."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx2

from hookfast.cli.remote.client import reason
from hookfast.deliveries.headers import request_headers
from hookfast.errors import InvalidInput
from hookfast.signing.signature import DEFAULT_PROFILES, HashName, secret_key

_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
_ANSWER_SECONDS = 30.0
"""For the whole answer, which may come in pieces; httpx2's time is for each piece."""
_ANSWER_BYTES = 64 * 1024
"""Most that is read of an answer, as for a delivery. The rest costs its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a POST: a status, or what went wrong in words. `away`: there was nobody to send
    it to, so that the server has not seen it."""

    status: int | None
    error: str | None
    milliseconds: float
    away: bool = False

    @property
    def accepted(self) -> bool:
        """Whether a delivery would count it as delivered."""
        return self.status is not None and 200 <= self.status < 300


class Forwarder:
    """Sends to one URL. Raises InvalidInput for what is no URL, and for one outside of this machine
    and private networks unless that is allowed."""

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        allow_remote: bool,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self.url = _checked(url, allow_remote=allow_remote)
        self._answer_seconds = answer_seconds
        self._key = secret_key(secret)
        self._client = httpx2.AsyncClient(
            timeout=_TIMEOUT,
            trust_env=False,  # a proxy does not know this machine
            verify=allow_remote,  # what runs here has a certificate of its own making
            follow_redirects=False,  # as for a delivery
        )

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def send(self, event: Mapping[str, Any], *, attempt: int) -> Outcome:
        """POST an event of the stream. Its id is the message id: the same each time it is sent."""
        body = body_of(event)
        headers = request_headers(
            body,
            message_id=str(event["id"]),
            event_type=str(event["type"]),
            attempt=attempt,
            timestamp=int(time.time()),
            profiles=DEFAULT_PROFILES,
            keys=(self._key,),
            hash_name=HashName.SHA256,
            custom={},
            traceparent=str(event["traceparent"]),
            content_type=str(event["content_type"]),
            original=[(name, value) for name, value in event["headers"]],
        )
        began = time.perf_counter()
        status, error, away = None, None, False
        try:
            async with asyncio.timeout(self._answer_seconds):
                status = await self._post(body, headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as failure:
            away, error = True, f"nothing answers at {self.url} ({failure})"
        except (TimeoutError, httpx2.TimeoutException):
            error = f"no answer within {self._answer_seconds:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL) as failure:
            error = f"the connection failed: {reason(failure)}"
        milliseconds = (time.perf_counter() - began) * 1_000
        return Outcome(status=status, error=error, milliseconds=milliseconds, away=away)

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status, once the answer is whole, or as much of it as is read."""
        read = 0
        async with self._client.stream("POST", self.url, content=body, headers=headers) as response:
            async for part in response.aiter_raw():
                read += len(part)
                if read > _ANSWER_BYTES:
                    break
        return response.status_code


def body_of(event: Mapping[str, Any]) -> bytes:
    """The exact bytes of an event's body."""
    if "body_base64" in event:
        return base64.b64decode(event["body_base64"])
    return str(event["body"]).encode()


def _checked(url: str, *, allow_remote: bool) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and (parts.port or 1) and "@" not in parts.netloc
        host = parts.hostname if valid else None
    except ValueError:
        host = None
    if not host:
        raise InvalidInput.at("--forward-to", f"{url!r} is no URL like http://localhost:3000/hooks")
    for address in _addresses(host):
        if not allow_remote and not is_near(address):
            raise InvalidInput.at(
                "--forward-to",
                f"{host} is {address}, neither this machine nor a private network. Events may hold "
                "what should not leave it; --allow-remote forwards them there all the same.",
            )
    return url


def is_near(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is of this machine or a private network. Link-local ones are not: clouds
    have their metadata services there."""
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or (mapped.is_private and not mapped.is_link_local))


def _addresses(host: str) -> list[IPv4Address | IPv6Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter of a label that is empty or too long
        raise InvalidInput.at("--forward-to", f"{host} cannot be resolved: {error}") from None
    return [ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
