"""Verification that a receiver wants the events, before an endpoint is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_network
from typing import cast

import structlog

from api.context.context import Context
from hookfast.endpoints.credentials import Access, Credential, open_credentials
from hookfast.errors import InvalidInput, Misconfigured
from hookfast.sender import verify_endpoint
from hookfast.sender.verify import Mode
from hookfast.storage.tables import Endpoint

log = structlog.get_logger()

REQUEST_SECONDS = 5.0
_TOTAL_SECONDS = 30.0
VERIFIED = ("url", "verification", "allowed_networks")
"""The members of an endpoint whose change requires another verification."""
EVERYTHING = "**"
"""The topic to verify for an endpoint without subscriptions."""


async def verify(
    context: Context,
    *,
    mode: Mode,
    url: str,
    tenant_id: str,
    topics: Sequence[str],
    access: Access,
    allowed_networks: Sequence[str],
) -> None:
    """Return if the receiver agrees to every topic. Raises InvalidInput: `verification_failed` with
    the reason, or `verification_required` for `none` if the settings do not allow that. Raises
    TooManyRequests if there were too many verifications for the tenant."""
    if mode == "none" and not context.settings.allow_unverified:
        raise InvalidInput.at(
            "/verification",
            "this server does not allow unverified endpoints; use 'header' or 'query'",
            code="verification_required",
        )
    if mode != "none":
        context.receiver_checks.count(tenant_id)
    try:
        async with asyncio.timeout(_TOTAL_SECONDS):
            await verify_endpoint(
                context.sender,
                mode=mode,
                url=url,
                tenant_id=tenant_id,
                topics=topics or [EVERYTHING],
                timeout=REQUEST_SECONDS,
                access=access,
                allowed_networks=[ip_network(text) for text in allowed_networks],
            )
    except TimeoutError:
        raise InvalidInput.at(
            "/url",
            f"URL verification failed: {len(topics)} topics took over {_TOTAL_SECONDS:g} s",
            code="verification_failed",
        ) from None


async def verify_stored(context: Context, endpoint: Endpoint, topics: Sequence[str]) -> None:
    """Verify a stored endpoint; see `verify`."""
    await verify(
        context,
        mode=cast(Mode, endpoint.verification),
        url=endpoint.url,
        tenant_id=endpoint.tenant_id,
        topics=topics,
        access=stored_access(context, endpoint.credentials, endpoint_id=endpoint.id),
        allowed_networks=endpoint.allowed_networks,
    )


def stored_access(
    context: Context, credentials: Sequence[Credential], *, endpoint_id: str
) -> Access:
    """Open the credentials of an endpoint, to verify it. Raises InvalidInput, code
    `verification_failed`, if one cannot be opened."""
    try:
        return open_credentials(
            credentials, context.keyring, endpoint_id=endpoint_id, now=context.clock()
        )
    except Misconfigured as error:
        log.error("An endpoint cannot be used.", endpoint_id=endpoint_id, error=error.message)
        raise InvalidInput.at(
            "/url",
            "URL verification failed: this server cannot open the endpoint's credentials, and its "
            "log says why; set them again, or have its encryption keys corrected",
            code="verification_failed",
        ) from None
