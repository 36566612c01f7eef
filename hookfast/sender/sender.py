"""The sender: one HTTP request to somebody else's server, and what came of it.

Whatever the server does, `post` and `get` return an `Outcome` within the deadline. Redirects are
not followed, the environment's proxies and cookies are unknown here, and no request is ever sent
twice: whether a failed one is repeated is the retry plan's decision.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import cast

import httpx2

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.errors import Unavailable
from hookfast.sender.address_guard import AddressGuard, Network
from hookfast.sender.dial import Connect, Dialer, connect_tcp
from hookfast.sender.failure import RequestFailed, timed_out
from hookfast.sender.progress import Phase, begin_progress
from hookfast.sender.resolver import Lookup, Resolver, system_lookup
from hookfast.sender.retry_after import parse_retry_after
from hookfast.sender.transport import CUT, NETWORKS, OriginTransport
from hookfast.sender.url import Url, parse_url

_OWNED = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding"}
)
_RETRY_AFTER_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class _Answer:
    """A final answer, its body as it came; `cut` tells that it was longer than what was read."""

    status: int
    headers: httpx2.Headers
    body: bytes
    cut: bool


class Sender:
    """Sends requests, keeping connections open between them. For one event loop; close it with
    `aclose` or use it as an async context manager.

    `excerpt_bytes` is how much of an answer's body an outcome keeps; `ssl_context` (default: the
    system's trust store) has to verify certificates; `lookup` resolves names; `connect` opens
    sockets.
    """

    def __init__(
        self,
        *,
        guard: AddressGuard,
        excerpt_bytes: int = 2048,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock = utc_now,
        lookup: Lookup = system_lookup,
        connect: Connect = connect_tcp,
    ) -> None:
        self._excerpt_bytes = excerpt_bytes
        self._clock = clock
        self._resolver = Resolver(lookup)
        self._dialer = Dialer(guard=guard, resolver=self._resolver, connect=connect)
        self._transport = OriginTransport(self._dialer, ssl_context or default_ssl_context())

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,
        allowed_networks: Sequence[Network] = (),
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> Outcome:
        """POST `body`. `timeout`, in seconds, is one deadline for everything from the name's
        resolution to the last byte read; `allowed_networks` is where the host has to be.
        `confirm` is awaited once the connection is open, right before the first byte is sent;
        Unavailable where the deadline passes meanwhile.

        Raises InvalidInput for a URL that `check_url` refuses, and what `confirm` raises: then
        nothing was sent. Nothing that a server does raises.
        """
        outcome, _ = await self._send(
            "POST",
            url,
            headers=headers,
            body=body,
            timeout=timeout,
            networks=allowed_networks,
            confirm=confirm,
        )
        return outcome

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,
        allowed_networks: Sequence[Network] = (),
    ) -> tuple[Outcome, Mapping[str, str], str]:
        """GET under the same rules: the outcome, the answer's headers (names in lower case) and its
        body as text, at most 64 KiB of it; both empty when no complete answer came."""
        outcome, answer = await self._send(
            "GET", url, headers=headers, body=b"", timeout=timeout, networks=allowed_networks
        )
        if answer is None:
            return outcome, {}, ""
        return outcome, dict(answer.headers.items()), _text(answer.body, cut=answer.cut)

    async def refusal(
        self, url: str, *, timeout: float, allowed_networks: Sequence[Network] = ()
    ) -> str | None:
        """Why a request to `url` would be refused now, without connecting: a sentence. None where
        it would be tried, and where the name does not resolve (yet) or not within `timeout`.

        Raises InvalidInput as `post` does.
        """
        target = parse_url(url)
        try:
            async with asyncio.timeout(timeout):
                await self._dialer.judged(target.host, target.port, within=tuple(allowed_networks))
        except RequestFailed as failed:
            return failed.sentence if failed.result is Result.ADDRESS else None
        except TimeoutError:
            return None
        return None

    async def aclose(self) -> None:
        """Close the idle connections; one in use closes when its request ends."""
        self._resolver.close()
        await self._transport.aclose()

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float,
        networks: Sequence[Network],
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[Outcome, _Answer | None]:
        target = parse_url(url)
        request = _request(method, target, headers=headers, body=body, networks=tuple(networks))
        progress = begin_progress(confirm)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout) as deadline:
                answer = await self._exchange(request)
        except RequestFailed as failed:
            return _failure(failed, started), None
        except TimeoutError:
            if not deadline.expired():
                raise
            if progress.phase is Phase.CONFIRMING:
                # Our own database's silence says nothing about the receiver, and costs no attempt.
                raise Unavailable("The database did not say in time whether to send.") from None
            return _failure(timed_out(progress.phase, target.peer, timeout), started), None
        return self._answered(answer, _milliseconds_since(started)), answer

    async def _exchange(self, request: httpx2.Request) -> _Answer:
        response = await self._transport.handle_async_request(request)
        # All of it is there already; `aiter_raw` takes 4 % of a request's CPU to hand it over.
        body = b"".join(cast(httpx2.ByteStream, response.stream))
        return _Answer(response.status_code, response.headers, body, CUT in response.extensions)

    def _answered(self, answer: _Answer, duration_ms: float) -> Outcome:
        success = 200 <= answer.status < 300
        retry_after = None
        if answer.status in _RETRY_AFTER_STATUSES and "retry-after" in answer.headers:
            retry_after = parse_retry_after(answer.headers["retry-after"], now=self._clock())
        return Outcome(
            result=Result.SUCCESS if success else Result.STATUS,
            duration_ms=duration_ms,
            status_code=answer.status,
            error=None if success else _status_sentence(answer.status),
            retry_after_seconds=retry_after,
            response_excerpt=_text(
                answer.body[: self._excerpt_bytes],
                cut=answer.cut or len(answer.body) > self._excerpt_bytes,
            ),
        )


def _request(
    method: str, url: Url, *, headers: Mapping[str, str], body: bytes, networks: tuple[Network, ...]
) -> httpx2.Request:
    """The request, with the headers that are ours whatever `headers` says."""
    lines = [("Host", url.authority), ("Accept-Encoding", "identity")]
    lines += [(name, value) for name, value in headers.items() if name.lower() not in _OWNED]
    if method == "POST":
        lines.append(("Content-Length", str(len(body))))
    return httpx2.Request(
        method,
        _origin_url(url.scheme, url.authority),
        headers=lines,
        stream=httpx2.ByteStream(body),
        # The target goes out as the endpoint's owner wrote it; httpx2 would normalise it.
        extensions={"target": url.target, NETWORKS: networks},
    )


@lru_cache(maxsize=4096)
def _origin_url(scheme: str, authority: str) -> httpx2.URL:
    return httpx2.URL(f"{scheme}://{authority}/")


def default_ssl_context() -> ssl.SSLContext:
    """TLS 1.2 or later, verified by the system's authorities, or those of `SSL_CERT_FILE`."""
    return _ssl_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)  # reading the authorities takes 20 ms of CPU
def _ssl_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    context = httpx2.create_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _failure(failed: RequestFailed, started: float) -> Outcome:
    return Outcome(
        result=failed.result, duration_ms=_milliseconds_since(started), error=failed.sentence
    )


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _status_sentence(status: int) -> str:
    # The standard's phrase, not the server's: that one is text from the network.
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else ""
    sentence = f"The server answered {f'{status} {phrase}'.strip()}"
    return f"{sentence}; redirects are not followed." if status in _REDIRECTS else f"{sentence}."


# RFC 9110, section 15.4: those that name another place to go to; 304 is an answer to a condition.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
_KNOWN_STATUSES = frozenset(HTTPStatus)


def _text(data: bytes, *, cut: bool) -> str:
    """`data` as text every database stores: what is not UTF-8, and NUL, become U+FFFD; a character
    that the cut went through is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(data, final=not cut).replace("\x00", "\ufffd")
