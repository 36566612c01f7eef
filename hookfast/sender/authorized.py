"""Requests with the credentials of their endpoint. When the receiver rejects them, the request is
repeated within the attempt: with a new access token, and with the credentials that they replaced.

A rejected request was not accepted, so what prevents its repetition (its attempt is no longer due)
may be reported as if nothing had been sent.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime

from hookfast.deliveries.outcome import Result
from hookfast.endpoints.certificates import not_after
from hookfast.endpoints.credentials import Access, Authentication, OAuth2, TlsIdentity
from hookfast.sender.connection import Answer
from hookfast.sender.failure import RequestFailed
from hookfast.sender.oauth2 import AccessTokens
from hookfast.sender.origin import Destination
from hookfast.sender.phase import RequestPhase
from hookfast.sender.pool import ConnectionPool
from hookfast.sender.progress import current_progress
from hookfast.sender.request import Message, Request
from hookfast.sender.tls import TlsContexts
from hookfast.telemetry import instruments

_UNAUTHORIZED = 401
# nginx answers 400 to a request without a certificate that it accepts, or by its configuration 495
# or 496; proxies that pass the certificate on let the service answer 403.
_CERTIFICATE_REJECTED = frozenset({400, 403, 495, 496})
_ABOUT_CERTIFICATE = re.compile(rb"(?:SSL|TLS|client) certificate", re.IGNORECASE)


def certificate_problem(answer: Answer, access: Access, *, now: datetime) -> str | None:
    """Return what a server that answers instead of ending the handshake, such as nginx, says about
    the client certificate. None if it says nothing."""
    if answer.status not in _CERTIFICATE_REJECTED:
        return None
    if answer.status in (400, 403) and not _ABOUT_CERTIFICATE.search(answer.body):
        return None
    certificate = access.tls[0].certificate if access.tls else None
    if certificate is None:
        return "it requires a client certificate"
    end = not_after(certificate)
    expired = f", which expired on {end:%Y-%m-%d}" if end < now else ""
    return f"it rejected the client certificate{expired}"


class AuthorizedRequests:
    """Sends the requests of one sender."""

    def __init__(
        self, pool: ConnectionPool, *, contexts: TlsContexts, tokens: AccessTokens
    ) -> None:
        self._pool = pool
        self._contexts = contexts
        self._tokens = tokens

    async def send(self, request: Request, access: Access) -> Answer:
        """Return the answer to the request: the first one if all credentials are rejected. Raises
        RequestFailed."""
        if not access.authentication:
            return await self._over_tls(request, None, access.tls)
        rejections: list[Answer] = []
        failures: list[RequestFailed] = []
        for credential in access.authentication:
            try:
                async for authorization in self._authorizations(credential):
                    if rejections:
                        instruments.REPEATED_REQUESTS.add(cause="credentials")
                    answer = await self._over_tls(request, authorization, access.tls)
                    if answer.status != _UNAUTHORIZED:
                        return answer
                    rejections.append(answer)
            except RequestFailed as failed:
                if failed.result is not Result.CREDENTIALS:
                    raise
                failures.append(failed)
        if rejections:
            return rejections[0]
        raise failures[0]

    async def _authorizations(self, credential: Authentication) -> AsyncIterator[str]:
        """Yield the value of the header, and of an OAuth 2.0 client once more a new one."""
        if not isinstance(credential, OAuth2):
            yield credential.authorization
            return
        progress = current_progress()
        progress.phase = RequestPhase.AUTHORIZING
        token = await self._tokens.get(credential)
        progress.tokens.append(token)
        yield f"Bearer {token}"
        progress.phase = RequestPhase.AUTHORIZING
        other = await self._tokens.get(credential, rejected=token)
        if other != token:
            progress.tokens.append(other)
            yield f"Bearer {other}"

    async def _over_tls(
        self, request: Request, authorization: str | None, identities: tuple[TlsIdentity, ...]
    ) -> Answer:
        """Send the request with the first TLS identity that the server accepts."""
        message = request.message(authorization)
        if not identities:
            return await self._once(request, message, None)
        rejections: list[Answer | RequestFailed] = []
        for identity in identities:
            if rejections:
                instruments.REPEATED_REQUESTS.add(cause="credentials")
            try:
                answer = await self._once(request, message, identity)
            except RequestFailed as failed:
                if not _rejects_certificate(failed):
                    raise
                rejections.append(failed)
            else:
                if answer.status not in _CERTIFICATE_REJECTED:
                    return answer
                rejections.append(answer)
        if isinstance(rejections[0], RequestFailed):
            raise rejections[0]
        return rejections[0]

    async def _once(
        self, request: Request, message: Message, identity: TlsIdentity | None
    ) -> Answer:
        context = await self._contexts.of(identity)
        url = request.url
        to = Destination(
            url.host, url.port, context if url.scheme == "https" else None, request.networks
        )
        return await self._pool.exchange(to, message)


def _rejects_certificate(failed: RequestFailed) -> bool:
    """Whether a server may have failed a request because of our certificate. Some close the
    connection before their alert is read."""
    progress = current_progress()
    if progress.accepted is not None:
        return False
    unanswered = progress.phase in (RequestPhase.HANDSHAKE, RequestPhase.WAITING)
    return failed.result is Result.TLS or (failed.result is Result.RESET and unanswered)
