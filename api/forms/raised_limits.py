"""The job that wakes deliveries which wait for an endpoint's limits, when these are raised.

Each of those deliveries has an appointment, given at the old rate and up to an hour away. The job
makes them check the limits again, oldest first and no faster than the new rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from api.context.context import Context
from api.forms.jobs import draft_job
from hookfast.deliveries.job import MIN_RATE, JobKind
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.deliveries import jobs, permits, selection
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Endpoint, Job

_LIMITS = ("rate_limit_per_second", "max_in_flight")


async def draft(
    context: Context, principal: Principal, endpoint: Endpoint, columns: Mapping[str, Any]
) -> Job | None:
    """Return the job for a change of this endpoint to these columns; None if no limit is raised or
    no delivery waits. Pass it to `apply` in the transaction of the change."""
    if not any(_raised(getattr(endpoint, name), columns[name]) for name in _LIMITS):
        return None
    default, rate = context.settings.job_rate_per_second, columns["rate_limit_per_second"]
    job = await draft_job(
        context,
        principal,
        kind=JobKind.LIMITS,
        action="ask_again",
        chosen=DeliverySelection(
            endpoint_id=endpoint.id,
            # a paused delivery may wait for the turn of its resend
            statuses=(DeliveryStatus.PENDING, DeliveryStatus.RETRYING, DeliveryStatus.PAUSED),
            reason="endpoint_limit",
        ),
        rate_per_second=default if rate is None else min(default, max(rate, MIN_RATE)),
    )
    return job if job.total else None


async def apply(
    connection: AsyncConnection,
    context: Context,
    endpoint: Endpoint,
    columns: Mapping[str, Any],
    job: Job | None,
) -> None:
    """Reset the appointments given under the old limits, if the limits differ, and store the job.
    The caller then wakes the workflow starter."""
    if any(columns[name] != getattr(endpoint, name) for name in _LIMITS):
        await permits.reset(connection, endpoint.id, now=context.clock())
    if job is not None:
        # Up to now: deliveries created since the draft queued behind the same appointments.
        up_to = await selection.newest_id(connection)
        job.filter = job.filter | {"up_to": up_to}
        await jobs.add(connection, job)


def _raised(before: float | None, after: float | None) -> bool:
    return before is not None and (after is None or after > before)
