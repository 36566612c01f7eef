"""The limit of failed authentications per client.

A valid key works however often its address failed: many callers share one NAT or proxy, and a limit
that blocked all of them could be triggered by one of them to harm the others. So the key is still
looked up. The limit does not make guessing keys harder; their 256 random bits do. It protects what
failures use up: a client with a dead key in a loop is told to wait; the log gets a line a minute,
not one per request; and all clients over the limit share one look-up at a time, so that a flood of
invented keys uses one connection of the database's pool and leaves the others to valid requests.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

import structlog

from api.limits.token_bucket import TokenBuckets
from hookfast.errors import TooManyRequests, Unauthenticated

log = structlog.get_logger()


class FailureLimit:
    """Counts failed authentications by site (see `client_site`), in this process."""

    def __init__(self, *, per_minute: int) -> None:
        """Allow `per_minute` failures, at once or over a minute; 0 means no limit."""
        self._failures = (
            TokenBuckets(per_second=per_minute / 60, burst=per_minute) if per_minute else None
        )
        self._lines = TokenBuckets(per_second=1 / 60, burst=1)
        self._one_at_a_time = asyncio.Lock()

    def turn(self, site: str) -> AbstractAsyncContextManager[None]:
        """Return the context in which to look up a key that is not known to be valid."""
        if self._failures is not None and self._failures.is_empty(site):
            return self._one_at_a_time
        return nullcontext()

    def count(self, site: str, error: Unauthenticated) -> Unauthenticated | TooManyRequests:
        """Count a failure, and return the error to respond with."""
        if self._failures is None:
            return error
        take = self._failures.take(site)
        if take.granted:
            return error
        if self._lines.take(site).granted:
            log.warning("A client fails to authenticate too often.", client=site)
        return TooManyRequests(
            "Too many requests from your address had no valid API key. Use a valid key, or wait.",
            code="too_many_failures",
            retry_after=take.wait_seconds,
        )
