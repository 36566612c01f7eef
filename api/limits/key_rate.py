"""How many requests one API key may make, or one session of a portal link. Counted per process:
behind a load balancer with three API processes a key has up to three times the rate.

The answer's headers are those of draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` says
the quota `q` (requests) of a window `w` (seconds), `RateLimit` the requests `r` that are left and
the seconds `t` until the quota is whole again. It is a token bucket: the quota comes back steadily.
"""

from __future__ import annotations

import math

from starlette.types import Scope

from api.answers.headers import add_header
from api.answers.problems import TooManyRequests
from api.limits.token_bucket import TokenBuckets


class KeyRate:
    """The requests of each key, and of each session that a portal link began."""

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._requests = TokenBuckets(per_second=per_second, burst=burst)
        window = math.ceil(burst / per_second)
        self._policy = f'"key";q={burst};w={window}'

    def count(self, name: str, scope: Scope) -> None:
        """Count a request under a name, that of a key or of what is counted apart from it, and say
        on its answer what is left. Raises TooManyRequests."""
        take = self._requests.take(name)
        add_header(scope, "RateLimit-Policy", self._policy)
        add_header(scope, "RateLimit", f'"key";r={take.left};t={take.full_seconds}')
        if not take.granted:
            raise TooManyRequests(
                "These are more requests than an API key or a session may make; see "
                "`RateLimit-Policy`.",
                code="rate_limited",
                retry_after=take.wait_seconds,
            )


def key_rate(*, per_second: float, burst: int) -> KeyRate | None:
    """The limit in force; None when there is none (`per_second` is 0)."""
    return KeyRate(per_second=per_second, burst=burst) if per_second else None
