"""The sender: sends an HTTP request to an endpoint and returns its outcome.

Whatever the server does, `post` and `get` return an `Outcome` within the deadline. Redirects are
not followed, proxies of the environment and cookies are not used, and no request is sent twice,
unless its reused connection ends before an answer begins (`origin`): the retry plan decides whether
a failed one is repeated.
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
from hookfast.endpoints.credentials import PUBLIC, Access
from hookfast.errors import Unavailable
from hookfast.sender.address_guard import AddressGuard, Network
from hookfast.sender.dial import Connect, Dialer, connect_tcp
from hookfast.sender.failure import RequestFailed, timed_out
from hookfast.sender.progress import Phase, begin_progress
from hookfast.sender.resolver import Lookup, Resolver, system_lookup
from hookfast.sender.retry_after import parse_retry_after
from hookfast.sender.transport import CUT, NETWORKS, OriginTransport
from hookfast.sender.url import Url, parse_url

_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding"}
)
_RETRY_AFTER_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class _Answer:
    """A final response with its raw body; `cut` means that only the body's start was read."""

    status: int
    headers: httpx2.Headers
    body: bytes
    cut: bool


class Sender:
    """Sends requests over connections that stay open. For one event loop. Close it with `aclose` or
    use it as an async context manager.

    `excerpt_bytes` is how much of a response's body an outcome keeps; `ssl_context` (default: the
    system's trust store) must verify certificates; `lookup` resolves names; `connect` opens
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
        access: Access = PUBLIC,
        allowed_networks: Sequence[Network] = (),
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> Outcome:
        """POST `body` and return the outcome; no behaviour of the server raises an error.

        `timeout`, in seconds, is the deadline from resolving the name to reading the last byte.
        `allowed_networks`, if any, must contain the host's addresses. `confirm` is awaited when a
        connection is open, right before the first byte is sent on it.

        Raises InvalidInput for a URL that `check_url` rejects, Unavailable when the deadline passes
        during `confirm`, and any error of `confirm`: in all these cases nothing was sent.
        """
        outcome, _ = await self._send(
            "POST",
            url,
            headers=headers,
            body=body,
            timeout=timeout,
            access=access,
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
        access: Access = PUBLIC,
        allowed_networks: Sequence[Network] = (),
    ) -> tuple[Outcome, Mapping[str, str], str]:
        """GET under the same rules. Return the outcome, the response headers (names in lower case)
        and the body as text of at most 64 KiB; both are empty without a complete response."""
        outcome, answer = await self._send(
            "GET",
            url,
            headers=headers,
            body=b"",
            timeout=timeout,
            access=access,
            networks=allowed_networks,
        )
        if answer is None:
            return outcome, {}, ""
        return outcome, dict(answer.headers.items()), _text(answer.body, cut=answer.cut)

    async def blocked_reason(
        self, url: str, *, timeout: float, allowed_networks: Sequence[Network] = ()
    ) -> str | None:
        """Return why the address of `url` is blocked, as a sentence, without connecting to it. None
        when it is allowed, or when its name does not resolve (yet, or within `timeout`).

        Raises InvalidInput as `post` does.
        """
        target = parse_url(url)
        try:
            async with asyncio.timeout(timeout):
                await self._dialer.allowed_addresses(
                    target.host, target.port, within=tuple(allowed_networks)
                )
        except RequestFailed as failed:
            return failed.sentence if failed.result is Result.ADDRESS else None
        except TimeoutError:
            return None
        return None

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their requests end."""
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
        access: Access,
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
            if progress.phase is Phase.CONFIRMING and progress.unanswered is not None:
                return _failure(progress.unanswered, started), None
            if progress.phase is Phase.CONFIRMING:
                # Our own slow database says nothing about the receiver, so this is not an attempt.
                raise Unavailable("The database did not confirm the attempt in time.") from None
            return _failure(timed_out(progress.phase, target.peer, timeout), started), None
        return self._outcome(answer, _milliseconds_since(started)), answer

    async def _exchange(self, request: httpx2.Request) -> _Answer:
        response = await self._transport.handle_async_request(request)
        # The body has been read already; iterating with `aiter_raw` takes 4 % of a request's CPU.
        body = b"".join(cast(httpx2.ByteStream, response.stream))
        return _Answer(response.status_code, response.headers, body, CUT in response.extensions)

    def _outcome(self, answer: _Answer, duration_ms: float) -> Outcome:
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
    """Return the request. The caller cannot set the headers in `_OWN_HEADERS`."""
    lines = [("Host", url.authority), ("Accept-Encoding", "identity")]
    lines += [(name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS]
    if method == "POST":
        lines.append(("Content-Length", str(len(body))))
    return httpx2.Request(
        method,
        _origin_url(url.scheme, url.authority),
        headers=lines,
        stream=httpx2.ByteStream(body),
        # The target is sent as the endpoint's owner wrote it; httpx2 would normalise it.
        extensions={"target": url.target, NETWORKS: networks},
    )


@lru_cache(maxsize=4096)
def _origin_url(scheme: str, authority: str) -> httpx2.URL:
    return httpx2.URL(f"{scheme}://{authority}/")


def default_ssl_context() -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later that verifies certificates by the system's authorities,
    or those in `SSL_CERT_FILE`."""
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
    # The standard's phrase, because the server's is text from the network.
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else ""
    sentence = f"The server answered {f'{status} {phrase}'.strip()}"
    return f"{sentence}; redirects are not followed." if status in _REDIRECTS else f"{sentence}."


# RFC 9110, section 15.4: the statuses that name another location, so without 304.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
_KNOWN_STATUSES = frozenset(HTTPStatus)


def _text(data: bytes, *, cut: bool) -> str:
    """Return `data` as text that every database can store: NUL and invalid UTF-8 become U+FFFD, and
    a character that was cut in two is dropped."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(data, final=not cut).replace("\x00", "\ufffd")
