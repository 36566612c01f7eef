"""The request rate limit of one API key, or of one session of a portal link. It counts per process:
behind a load balancer with three API processes, a key has up to three times the rate.

The response headers are those of draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` has
the quota `q` (requests) of a window `w` (seconds), `RateLimit` the remaining requests `r` and the
seconds `t` until the quota is full again. As it is a token bucket, the quota refills steadily.
"""

from __future__ import annotations

import math

from starlette.types import Scope

from api.answers.headers import add_header
from api.limits.token_bucket import TokenBuckets
from hookfast.errors import TooManyRequests


class KeyRate:
    """Counts the requests of each key, and of each session of a portal link."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._requests = TokenBuckets(per_second=per_second, burst=burst)
        window = math.ceil(burst / per_second)
        self._policy = f'"key";q={burst};w={window}'

    def count(self, name: str, scope: Scope) -> None:
        """Count a request under the name of a key or session, and add the remaining quota to its
        response. Raises TooManyRequests."""
        take = self._requests.take(name)
        add_header(scope, "RateLimit-Policy", self._policy)
        add_header(scope, "RateLimit", f'"key";r={take.left};t={take.full_seconds}')
        if not take.granted:
            raise TooManyRequests(
                "This API key or session made too many requests; see `RateLimit-Policy`.",
                code="rate_limited",
                retry_after=take.wait_seconds,
            )
