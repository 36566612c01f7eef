"""Looks again at the key of a request whose response lives on: before each piece of a stream, and
before a poll that has waited returns events.

Keys are cached for two seconds (`api.context.key_cache`), so this costs at most one query every two
seconds, and nothing is sent with a key that ended earlier than that. While the database is away,
nobody knows whether a key still works: the response pauses, and ends when that lasts.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import Request
from sqlalchemy.exc import SQLAlchemyError

from api.access.authentication import check_key, principal_of
from hookfast.errors import HookfastError, Unauthenticated
from hookfast.outage_log import DATABASE

GRACE_SECONDS: Final = 10.0
"""How long a stream pauses while the database is away. A restart or failover takes PostgreSQL some
seconds, after which thousands of streams should not have to connect again at once. A client that
allows a minute of silence notices nothing, because the last heartbeat was at most 15 s before."""
_RETRY_SECONDS: Final = 0.5


async def recheck_key(request: Request) -> None:
    """Check that the key of an authenticated request still works and means the same. Raises
    Unauthenticated, TooManyRequests after too many such failures, and the database's errors."""
    if principal_of(await check_key(request)) != request.state.principal:
        raise Unauthenticated("This API key was changed.", code="invalid_key")


async def key_still_works(request: Request) -> bool:
    """Return whether the key of a stream still works. Waits while the database is away, and returns
    False when that lasts for `GRACE_SECONDS`."""
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            while True:
                try:
                    await recheck_key(request)
                except SQLAlchemyError as error:
                    DATABASE.failed(
                        "A stream pauses: the database is away.", error=type(error).__name__
                    )
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    return True
    except (HookfastError, TimeoutError):
        return False
