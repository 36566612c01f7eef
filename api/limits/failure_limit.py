"""How often one client may fail to authenticate, and what happens after that.

A valid key works however often its address failed: behind one NAT or proxy sit many callers, and a
limit that shut all of them out would be a weapon for whoever sits beside them. So the key is still
looked up, and the limit does not make guessing harder; that a key is 256 random bits does. It
protects what failures use up: a client with a dead key in a loop is told to wait, with an answer
that says so; the log gets a line a minute, not one per request; and the look-ups of all clients
over the limit together have one turn at a time, so that a flood of made-up keys holds one
connection of the database's pool and the others stay for those who have work to do.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

import structlog

from api.answers.problems import TooManyRequests
from api.limits.token_bucket import TokenBuckets
from hookfast.errors import Unauthenticated

log = structlog.get_logger()


class FailureLimit:
    """Failures by site (see `client_site`), in this process."""

    def __init__(self, *, per_minute: int) -> None:
        """`per_minute` failures at once or in a minute; 0 is no limit."""
        self._failures = (
            TokenBuckets(per_second=per_minute / 60, burst=per_minute) if per_minute else None
        )
        self._lines = TokenBuckets(per_second=1 / 60, burst=1)
        self._one_at_a_time = asyncio.Lock()

    def turn(self, site: str) -> AbstractAsyncContextManager[None]:
        """Hold this while you look up a key that nobody knows to be valid."""
        if self._failures is not None and self._failures.is_empty(site):
            return self._one_at_a_time
        return nullcontext()

    def failed(self, site: str, error: Unauthenticated) -> Unauthenticated | TooManyRequests:
        """Count a failure; gives the error to answer with."""
        if self._failures is None:
            return error
        take = self._failures.take(site)
        if take.granted:
            return error
        if self._lines.take(site).granted:
            log.warning("A client fails to authenticate too often.", client=site)
        return TooManyRequests(
            "Too many requests from your address had no API key that works. Use a key that works, "
            "or wait.",
            code="too_many_failures",
            retry_after=take.wait_seconds,
        )
