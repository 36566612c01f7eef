"""Verify an endpoint's URL: its server must confirm that it wants events before it gets any."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias, assert_never

from hookfast.deliveries.outcome import Outcome
from hookfast.endpoints.credentials import PUBLIC, Access
from hookfast.errors import InvalidInput
from hookfast.sender.addresses import Network
from hookfast.sender.sender import Sender
from hookfast.version import VERSION

Mode = Literal["header", "query", "none"]

CHALLENGE_HEADER = "X-Hook-Challenge"
CHALLENGE_PARAMETER = "challenge"

_USER_AGENT = {"User-Agent": f"Hookfast/{VERSION}"}

_Get: TypeAlias = Callable[..., Awaitable[tuple[Outcome, Mapping[str, str], str]]]
"""`Sender.get` with the endpoint's options."""


async def verify_endpoint(
    sender: Sender,
    *,
    mode: Mode,
    url: str,
    tenant_id: str,
    topics: Sequence[str],
    timeout: float = 5.0,
    access: Access = PUBLIC,
    allowed_networks: Sequence[Network] = (),
) -> None:
    """Verify the server at `url`; `timeout` is in seconds, per request.

    `header`: one GET per topic; the server must return the challenge header `{tenant_id}.{topic}`
    with a 2xx. `query`: one GET with `?challenge=<random>`, which must be the whole body of the
    response, apart from white space around it. `none`: no request is sent, but the URL's address is
    checked, if its name already resolves.

    Raises InvalidInput, code `verification_failed`, with the reason.
    """
    get = partial(sender.get, timeout=timeout, access=access, allowed_networks=allowed_networks)
    match mode:
        case "header":
            for topic in topics:
                await _verify_header(get, url, challenge=f"{tenant_id}.{topic}")
        case "query":
            await _verify_query(get, url)
        case "none":
            blocked = await sender.blocked_reason(
                url, timeout=timeout, allowed_networks=allowed_networks
            )
            if blocked is not None:
                raise _failed(blocked)
        case _:
            assert_never(mode)


async def _verify_header(get: _Get, url: str, *, challenge: str) -> None:
    outcome, headers, _ = await get(url, headers={**_USER_AGENT, CHALLENGE_HEADER: challenge})
    _require_success(outcome)
    returned = headers.get(CHALLENGE_HEADER.lower())
    if returned is None:
        raise _failed(
            f"the response has no {CHALLENGE_HEADER} header; return the header of the request"
        )
    if returned != challenge:
        raise _failed(
            f"the response's {CHALLENGE_HEADER} is not the request's; return it unchanged"
        )


async def _verify_query(get: _Get, url: str) -> None:
    challenge = secrets.token_urlsafe(24)
    separator = "&" if "?" in url else "?"
    asked = f"{url}{separator}{CHALLENGE_PARAMETER}={challenge}"
    outcome, _, body = await get(asked, headers=_USER_AGENT)
    _require_success(outcome)
    if body.strip() != challenge:
        raise _failed(
            f"the response's body is not the value of the query parameter {CHALLENGE_PARAMETER!r}"
        )


def _require_success(outcome: Outcome) -> None:
    if not outcome.succeeded:
        raise _failed(outcome.error or "the request failed")


def _failed(reason: str) -> InvalidInput:
    return InvalidInput.at("/url", f"URL verification failed: {reason}", code="verification_failed")
