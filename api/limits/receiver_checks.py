"""The limit of requests that a tenant has this service send to a receiver at once: test sends and
verifications. Their URL is the tenant's choice, and nothing else paces them.

It counts per process and is kept in memory: three API processes allow up to three times the rate.
It protects receivers that never asked for a request, so a rough limit is enough, and an exact one
would be a write to the database for each request.
"""

from __future__ import annotations

from api.limits.token_bucket import TokenBuckets
from hookfast.errors import TooManyRequests
from hookfast.telemetry import instruments


class ReceiverCheckLimit:
    """Counts test sends and verifications by tenant, in this process."""

    def __init__(self, *, per_minute: int) -> None:
        """Allow `per_minute`, at once or over a minute; 0 means no limit."""
        self._sends = (
            TokenBuckets(per_second=per_minute / 60, burst=per_minute) if per_minute else None
        )
        self._per_minute = per_minute

    def count(self, tenant_id: str) -> None:
        """Count a test send or a verification. Raises TooManyRequests beyond the limit."""
        if self._sends is None:
            return
        take = self._sends.take(tenant_id)
        if not take.granted:
            instruments.QUOTA_REJECTIONS.add(quota="test_sends", tenant=tenant_id)
            raise TooManyRequests(
                f"Only {self._per_minute} test sends and verifications a minute are allowed for a "
                f"tenant. Nothing was sent; try again in {take.wait_seconds} s.",
                code="too_many_test_sends",
                retry_after=take.wait_seconds,
            )
