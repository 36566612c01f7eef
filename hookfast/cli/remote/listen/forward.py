"""Forwards an event to the developer's server: one POST, signed as a delivery would be."""

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

from hookfast.deliveries.headers import request_headers
from hookfast.errors import InvalidInput
from hookfast.signing.signature import DEFAULT_PROFILES, HashName, secret_key
from hookfast_client.answer import error_text

_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
_RESPONSE_SECONDS = 30.0
"""Time limit for the whole response; httpx2's timeout is for each piece of it."""
_RESPONSE_BYTES = 64 * 1024
"""Maximum bytes read of a response, as for a delivery; a longer one closes the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a POST: a status, or an error in words. `away`: nothing listens at the URL, so
    the server has not seen the event."""

    status: int | None
    error: str | None
    milliseconds: float
    away: bool = False

    @property
    def accepted(self) -> bool:
        """Whether a delivery with this outcome would have succeeded."""
        return self.status is not None and 200 <= self.status < 300


class Forwarder:
    """Sends events to one URL. Raises InvalidInput for an invalid URL and, unless `allow_remote`,
    for an address that is neither on this machine nor in a private network."""

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        allow_remote: bool,
        response_seconds: float = _RESPONSE_SECONDS,
    ) -> None:
        self.url = _checked(url, allow_remote=allow_remote)
        self._response_seconds = response_seconds
        self._key = secret_key(secret)
        self._client = httpx2.AsyncClient(
            timeout=_TIMEOUT,
            trust_env=False,  # a proxy cannot reach this machine
            verify=allow_remote,  # a local server has a self-signed certificate
            follow_redirects=False,  # as for a delivery
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def send(self, event: Mapping[str, Any], *, attempt: int) -> Outcome:
        """POST an event of the stream. The message id is the event's id, the same at each
        attempt."""
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
            async with asyncio.timeout(self._response_seconds):
                status = await self._post(body, headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as failure:
            away, error = True, f"nothing answers at {self.url} ({failure})"
        except (TimeoutError, httpx2.TimeoutException):
            error = f"no response within {self._response_seconds:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL) as failure:
            error = f"the connection failed: {error_text(failure)}"
        milliseconds = (time.perf_counter() - began) * 1_000
        return Outcome(status=status, error=error, milliseconds=milliseconds, away=away)

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Return the status, once the response is complete or `_RESPONSE_BYTES` of it are read."""
        read = 0
        sent = httpx2.Headers(headers, encoding="latin-1")  # a forwarded value may have `obs-text`
        async with self._client.stream("POST", self.url, content=body, headers=sent) as response:
            async for part in response.aiter_raw():
                read += len(part)
                if read > _RESPONSE_BYTES:
                    break
        return response.status_code


def body_of(event: Mapping[str, Any]) -> bytes:
    """Return the exact bytes of an event's body."""
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
        raise InvalidInput.at(
            "--forward-to", f"{url!r} is not a URL like http://localhost:3000/hooks"
        )
    for address in _addresses(host):
        if not allow_remote and not is_local_network(address):
            raise InvalidInput.at(
                "--forward-to",
                f"{host} is {address}, neither this machine nor a private network. Events may have "
                "data that should not leave it; --allow-remote forwards them there anyway.",
            )
    return url


def is_local_network(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is of this machine or a private network. Link-local addresses are not:
    clouds have their metadata services there."""
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or (mapped.is_private and not mapped.is_link_local))


def _addresses(host: str) -> list[IPv4Address | IPv6Address]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a label is empty or too long
        raise InvalidInput.at("--forward-to", f"{host} cannot be resolved: {error}") from None
    return [ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
