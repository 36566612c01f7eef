"""Access tokens by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4).

A token is kept in memory until shortly before it expires, and is fetched once for all requests that
wait for it. Its request goes through the same address guard as every other request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from cachetools import TLRUCache

from hookfast.deliveries.outcome import Result
from hookfast.endpoints.credentials import TOKEN, OAuth2
from hookfast.sender.failure import RequestFailed
from hookfast.version import VERSION

FETCH_SECONDS = 10.0
"""Longest time for one token request. It continues when the request that began it has no time left,
so that the next one finds the token."""
_DEFAULT_LIFETIME = 300.0  # of a token whose response does not tell
_MAX_LIFETIME = 86_400.0
_MOST_KEPT = 10_000
_MAX_TOKEN = 16_384

# RFC 6749, section 5.2. The response's own description is text from the network.
_ERRORS = {
    "invalid_client": "it does not accept the client's id and secret",
    "unauthorized_client": "the client may not use the client credentials grant",
    "unsupported_grant_type": "it does not support the client credentials grant",
    "invalid_scope": "it does not allow the scope",
    "invalid_request": "it finds the request invalid (is an audience or a scope missing?)",
    "invalid_grant": "it finds the grant invalid",
    "invalid_target": "it does not know the audience",
    "access_denied": "it denies access",
}

Fetch = Callable[[str, dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""POSTs a body with headers to a URL. Returns status and body; raises RequestFailed."""


class AccessTokens:
    """The access tokens of one process."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._tokens: TLRUCache[OAuth2, _Token] = TLRUCache(
            _MOST_KEPT, ttu=lambda _, token, now: now + token.kept_seconds
        )
        self._fetching: dict[OAuth2, asyncio.Task[str]] = {}

    async def get(self, client: OAuth2, *, rejected: str | None = None) -> str:
        """Return an access token, never `rejected`. Raises RequestFailed, result `credentials`."""
        known = self._tokens.get(client)
        if known is not None and known.text != rejected:
            return known.text
        task = self._fetching.get(client)
        if task is None:
            self._tokens.pop(client, None)
            task = asyncio.create_task(self._request(client))
            self._fetching[client] = task
            task.add_done_callback(lambda done: self._fetched(client, done))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Give up the requests under way."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fetched(self, client: OAuth2, task: asyncio.Task[str]) -> None:
        del self._fetching[client]
        if not task.cancelled():
            task.exception()  # every waiting request has got it, and there may be none

    async def _request(self, client: OAuth2) -> str:
        form = {"grant_type": "client_credentials"}
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": f"Hookfast/{VERSION}",
        }
        if client.client_authentication == "basic":
            headers["Authorization"] = client.authorization
        else:
            form |= {"client_id": client.client_id, "client_secret": client.client_secret}
        form |= {"scope": client.scope} if client.scope else {}
        form |= {"audience": client.audience} if client.audience else {}
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                status, body = await self._fetch(
                    client.token_url, headers, urlencode(form).encode()
                )
        except TimeoutError:
            raise _failed(f"it did not answer within {FETCH_SECONDS:g} s") from None
        except RequestFailed as failed:
            raise RequestFailed(
                Result.CREDENTIALS, f"There is no access token: {failed.sentence}"
            ) from failed
        token = _parse(status, body)
        if token.kept_seconds > 0:
            self._tokens[client] = token
        return token.text


class _Token:
    __slots__ = ("kept_seconds", "text")

    def __init__(self, text: str, lifetime: float) -> None:
        self.text = text
        # A request that carries the token may take up to 30 s to be judged.
        self.kept_seconds = lifetime - min(30.0, lifetime * 0.2)


def _parse(status: int, body: bytes) -> _Token:
    """Return the token of a response (RFC 6749, section 5.1). Raises RequestFailed."""
    answer = _json_object(body)
    if status != 200:
        error = answer.get("error")
        reason = _ERRORS.get(error) if isinstance(error, str) else None
        raise _failed(f"it answered {status}" + (f": {reason}" if reason else ""))
    text, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
    if not isinstance(text, str) or len(text) > _MAX_TOKEN or not TOKEN.fullmatch(text):
        raise _failed("its answer has no valid `access_token`")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _failed("its answer has a `token_type` other than Bearer")
    return _Token(text, _lifetime(answer.get("expires_in")))


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _lifetime(expires_in: Any) -> float:
    """Return the seconds that a token is valid. Some servers send the number as text."""
    try:
        seconds = float(expires_in)
    except (TypeError, ValueError, OverflowError):
        return _DEFAULT_LIFETIME
    return min(max(seconds, 0.0), _MAX_LIFETIME) if seconds == seconds else _DEFAULT_LIFETIME


def _failed(reason: str) -> RequestFailed:
    return RequestFailed(Result.CREDENTIALS, f"The token endpoint gave no access token: {reason}.")
