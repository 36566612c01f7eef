"""The sender: sends an HTTP request to an endpoint and returns its outcome.

Whatever the server does, and whatever fails in our own code, `post` and `get` return an `Outcome`
within the deadline: an error that is raised would have the request repeated for ever. Redirects are
not followed, and proxies of the environment and cookies are not used. A request is sent once more
only if its reused connection ends before an answer begins (`origin`), or if its credentials are
rejected (`authorized`): whether a failed one is repeated is for the retry plan to decide.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.evidence import Evidence, Start, evidence_of, start_of, storable_text
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.endpoints.credentials import PUBLIC, Access
from hookfast.errors import Unavailable
from hookfast.sender.address_guard import AddressGuard
from hookfast.sender.addresses import Network
from hookfast.sender.authorized import AuthorizedRequests, certificate_problem
from hookfast.sender.connection import Answer
from hookfast.sender.dial import Connect, Dialer, connect_tcp
from hookfast.sender.failure import RequestFailed, internal_error, timed_out
from hookfast.sender.http1 import Field
from hookfast.sender.masking import SecretMasks
from hookfast.sender.oauth2 import AccessTokens
from hookfast.sender.phase import RequestPhase
from hookfast.sender.pool import ConnectionPool
from hookfast.sender.progress import begin_progress, current_progress
from hookfast.sender.proxy import STAGGER_SECONDS as TUNNEL_STAGGER
from hookfast.sender.proxy import Tunnels, not_reached
from hookfast.sender.request import Request
from hookfast.sender.resolver import Lookup, Resolver, system_lookup
from hookfast.sender.retry_after import parse_retry_after
from hookfast.sender.tls import TlsContexts, default_ssl_context
from hookfast.sender.url import parse_url
from hookfast.settings.egress_proxy import EgressProxy

_RETRY_AFTER_STATUSES = frozenset({429, 503})


class Sender:
    """Sends requests over connections that stay open. For one event loop. Close it with `aclose` or
    use it as an async context manager.

    An outcome keeps `excerpt_bytes` of the response's body, and `header_bytes` of the headers of
    request and response each (0: none). `ssl_context` (default: the system's trust store) must
    verify certificates; `lookup` resolves names; `connect` opens sockets; all connections go
    through `proxy`, if there is one.
    """

    def __init__(
        self,
        *,
        guard: AddressGuard,
        excerpt_bytes: int = 2048,
        header_bytes: int = 4096,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock = utc_now,
        lookup: Lookup = system_lookup,
        connect: Connect = connect_tcp,
        proxy: EgressProxy | None = None,
    ) -> None:
        self._excerpt_bytes = excerpt_bytes
        self._header_bytes = header_bytes
        self._clock = clock
        self._resolver = Resolver(lookup)
        self._tunnels: Tunnels | None = None
        if proxy is None:
            self._dialer = Dialer(guard=guard, resolver=self._resolver, connect=connect)
        else:
            self._tunnels = Tunnels(proxy, resolver=self._resolver, connect=connect)
            self._dialer = Dialer(
                guard=guard, resolver=self._resolver, connect=self._tunnels, stagger=TUNNEL_STAGGER
            )
        self._pool = ConnectionPool(self._dialer)
        self._masks = SecretMasks()
        self._tokens = AccessTokens(self._fetch_token)
        self._requests = AuthorizedRequests(
            self._pool,
            contexts=TlsContexts(ssl_context or default_ssl_context()),
            tokens=self._tokens,
        )

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
        public_headers: Collection[str] = (),
    ) -> Outcome:
        """POST `body` and return the outcome. A 2xx status line is a success, whatever follows it
        (ADR 53). Neither the server nor an error of our own raises anything.

        `timeout`, in seconds, is the deadline from resolving the name to reading the last byte.
        `allowed_networks`, if any, must contain the host's addresses. `confirm` is awaited when a
        connection is open, right before the first byte is sent on it. `public_headers` (names in
        lower case) are no secrets, so the outcome's evidence has their values.

        Raises Unavailable when the deadline passes during `confirm`, EgressUnavailable when the
        egress proxy does not work, OutOfResources when this process cannot open a connection, and
        any error of `confirm`: in all these cases nothing was sent.
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
            public=public_headers,
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
        and the body as text of at most 64 KiB; both are empty without a complete response, which
        only a success has. They may have secrets in them: compare them, but keep and show nothing
        of them. Raises EgressUnavailable and OutOfResources as `post` does."""
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
            if outcome.succeeded:
                outcome = replace(outcome, result=Result.PROTOCOL)
            return outcome, {}, ""
        return outcome, _by_name(answer.headers), storable_text(answer.body, cut=answer.cut)

    async def blocked_reason(
        self, url: str, *, timeout: float, allowed_networks: Sequence[Network] = ()
    ) -> str | None:
        """Return why the address of `url` is blocked, as a sentence, without connecting to it. None
        when it is allowed, or when its name does not resolve (yet, or within `timeout`).

        Raises InvalidInput for a URL that `check_url` rejects.
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
        await self._tokens.aclose()
        await self._pool.aclose()

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
        public: Collection[str] | None = None,
    ) -> tuple[Outcome, Answer | None]:
        """Return the outcome, with evidence if `public` is not None."""
        progress = begin_progress(confirm)
        started = time.perf_counter()
        try:
            target = parse_url(url)
            request = Request(method, target, headers, body, tuple(networks))
            answer = await self._answer(request, access, timeout)
            duration_ms = _milliseconds_since(started)
            start = self._masks.of(access, progress.tokens)
            evidence = self._evidence(url, answer.headers, public, start)
            return self._outcome(answer, access, duration_ms, evidence, start), answer
        except RequestFailed as error:
            failed = error
        except Unavailable:
            raise
        except Exception as error:
            if progress.phase is RequestPhase.CONFIRMING:  # an error of `confirm`
                raise
            failed = internal_error(error)
        duration_ms = _milliseconds_since(started)
        evidence = self._evidence(url, None, public, start_of)
        return _without_answer(failed, progress.accepted, duration_ms, evidence), None

    async def _answer(self, request: Request, access: Access, timeout: float) -> Answer:
        """Return the answer. Raises RequestFailed also when the deadline passes."""
        progress = current_progress()
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await self._requests.send(request, access)
        except TimeoutError:
            if not deadline.expired():
                raise
            if progress.phase not in (RequestPhase.PROXY, RequestPhase.CONFIRMING):
                raise timed_out(progress.phase, request.url.peer, timeout) from None
            raise progress.unanswered or self._not_sent(progress.phase) from None

    async def _fetch_token(
        self, url: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """POST a token request, in a task of its own."""
        begin_progress()
        answer = await self._requests.send(Request("POST", parse_url(url), headers, body), PUBLIC)
        return answer.status, answer.body

    def _evidence(
        self, url: str, received: list[Field] | None, public: Collection[str] | None, start: Start
    ) -> Evidence | None:
        """Return the evidence of the current request; None without `public`."""
        if public is None:
            return None
        return evidence_of(
            url,
            sent=current_progress().sent,
            received=received,
            public=public,
            limit=self._header_bytes,
            start=start,
        )

    def _not_sent(self, phase: RequestPhase) -> Unavailable:
        """Return the error when the deadline passed while we waited for a part of our own. That
        says nothing about the receiver, so it is not an attempt."""
        if phase is RequestPhase.CONFIRMING or self._tunnels is None:
            return Unavailable("The database did not confirm the attempt in time.")
        error = not_reached()
        self._tunnels.note(error)
        return error

    def _outcome(
        self,
        answer: Answer,
        access: Access,
        duration_ms: float,
        evidence: Evidence | None,
        start: Start,
    ) -> Outcome:
        success = 200 <= answer.status < 300
        retry_after = error = None
        if not success:
            problem = certificate_problem(answer, access, now=self._clock())
            error = _status_sentence(answer.status, problem)
        if answer.status in _RETRY_AFTER_STATUSES:
            value = _by_name(answer.headers).get("retry-after")
            if value is not None:
                retry_after = parse_retry_after(value, now=self._clock())
        excerpt, more = start(answer.body, self._excerpt_bytes, cut=answer.cut)
        return Outcome(
            result=Result.SUCCESS if success else Result.STATUS,
            duration_ms=duration_ms,
            status_code=answer.status,
            error=error,
            retry_after_seconds=retry_after,
            response_excerpt=storable_text(excerpt, cut=more),
            evidence=evidence,
        )


def _by_name(headers: list[Field]) -> dict[str, str]:
    """Return the headers by their names in lower case. Repeated ones are joined to a list (RFC
    9110, section 5.3)."""
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(values) for name, values in named.items()}


def _without_answer(
    failed: RequestFailed, accepted: int | None, duration_ms: float, evidence: Evidence | None
) -> Outcome:
    """Return the outcome of a request without a complete answer. `accepted` is the status of an
    answer that began with a 2xx: the receiver has said yes."""
    if accepted is None:
        return Outcome(
            result=failed.result,
            duration_ms=duration_ms,
            error=failed.sentence,
            evidence=evidence,
        )
    return Outcome(
        result=Result.SUCCESS,
        duration_ms=duration_ms,
        status_code=accepted,
        error=f"The server answered {_named(accepted)}, but the rest of its answer was lost. "
        f"{failed.sentence}",
        evidence=evidence,
    )


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _status_sentence(status: int, problem: str | None) -> str:
    sentence = f"The server answered {_named(status)}"
    if status in _REDIRECTS:
        problem = "redirects are not followed"
    return f"{sentence}; {problem}." if problem else f"{sentence}."


def _named(status: int) -> str:
    # The standard's phrase, because the server's is text from the network.
    phrase = HTTPStatus(status).phrase if status in _KNOWN_STATUSES else ""
    return f"{status} {phrase}".strip()


# RFC 9110, section 15.4: the statuses that name another location, so without 304.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
_KNOWN_STATUSES = frozenset(HTTPStatus)
