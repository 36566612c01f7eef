"""URL verification: before an endpoint gets events, its server shows that it wants them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Literal, assert_never

from hookfast.deliveries.outcome import Outcome
from hookfast.errors import InvalidInput
from hookfast.sender.address_guard import Network
from hookfast.sender.sender import Sender
from hookfast.version import VERSION

Mode = Literal["header", "query", "none"]

CHALLENGE_HEADER = "X-Hook-Challenge"

_USER_AGENT = {"User-Agent": f"Hookfast/{VERSION}"}


async def verify_endpoint(
    sender: Sender,
    *,
    mode: Mode,
    url: str,
    tenant_id: str,
    topics: Sequence[str],
    timeout: float = 5.0,
    allowed_networks: Sequence[Network] = (),
) -> None:
    """Return if the server behind `url` passes; `timeout` is in seconds, per request.

    `header`: one GET per topic, whose challenge header `{tenant_id}.{topic}` has to come back with
    a 2xx. `query`: one GET with `?challenge=<random>`, which has to be the answer's whole body
    (white space around it aside). `none`: nothing is asked; where the URL points is judged all the
    same, as far as its name resolves by now.

    Raises InvalidInput, code `verification_failed`, with the reason.
    """
    match mode:
        case "header":
            for topic in topics:
                await _verify_header(
                    sender,
                    url,
                    challenge=f"{tenant_id}.{topic}",
                    timeout=timeout,
                    allowed_networks=allowed_networks,
                )
        case "query":
            await _verify_query(sender, url, timeout=timeout, allowed_networks=allowed_networks)
        case "none":
            refusal = await sender.refusal(url, timeout=timeout, allowed_networks=allowed_networks)
            if refusal is not None:
                raise _failed(refusal)
        case _:
            assert_never(mode)


async def _verify_header(
    sender: Sender,
    url: str,
    *,
    challenge: str,
    timeout: float,
    allowed_networks: Sequence[Network],
) -> None:
    outcome, headers, _ = await sender.get(
        url,
        headers={**_USER_AGENT, CHALLENGE_HEADER: challenge},
        timeout=timeout,
        allowed_networks=allowed_networks,
    )
    _require_success(outcome)
    answered = headers.get(CHALLENGE_HEADER.lower())
    if answered is None:
        raise _failed(
            f"the answer has no {CHALLENGE_HEADER} header; send back the one of the request"
        )
    if answered != challenge:
        raise _failed(f"the answer's {CHALLENGE_HEADER} is not the request's: send it unchanged")


async def _verify_query(
    sender: Sender, url: str, *, timeout: float, allowed_networks: Sequence[Network]
) -> None:
    challenge = secrets.token_urlsafe(24)
    separator = "&" if "?" in url else "?"
    outcome, _, body = await sender.get(
        f"{url}{separator}challenge={challenge}",
        headers=_USER_AGENT,
        timeout=timeout,
        allowed_networks=allowed_networks,
    )
    _require_success(outcome)
    if body.strip() != challenge:
        raise _failed("the answer's body is not the value of the query parameter 'challenge'")


def _require_success(outcome: Outcome) -> None:
    if not outcome.succeeded:
        raise _failed(outcome.error or "the request failed")


def _failed(reason: str) -> InvalidInput:
    return InvalidInput.at("/url", f"URL verification failed: {reason}", code="verification_failed")
