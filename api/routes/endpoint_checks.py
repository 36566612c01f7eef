"""Checks of an endpoint: another verification, and statistics. For tests see `endpoint_tests`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.authentication import Reader, Writer
from api.access.ownership import owned
from api.context.context import AppContext
from api.forms.endpoint import require_push
from api.forms.verification import EVERYTHING, verify_stored
from api.http.fields import EndpointPath, Time, TimeInput
from api.http.routing import router
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.errors import InvalidInput
from hookfast.resources.endpoint import Verification
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.figures import endpoint_stats
from hookfast.storage.figures.endpoint_stats import MAX_ATTEMPTS, MAX_DELIVERIES

routes = router("Endpoint checks")

_WINDOW = timedelta(hours=24)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_SHARES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
_ENDED = (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD, DeliveryStatus.GONE)


class VerifiedView(BaseModel):
    """The topics that the receiver agreed to."""

    endpoint_id: str
    url: str = Field(description="The URL that was asked.")
    verification: Verification = Field(description="`none`: only the URL's address was checked.")
    topics: list[str] = Field(description="The patterns of its subscriptions.")


class LatencyView(BaseModel):
    """Durations of the attempts that got a response, in milliseconds."""

    p50: float = Field(description="Half of them were as fast or faster (the median).")
    p95: float = Field(description="95 % of them were as fast or faster.")
    p99: float = Field(description="99 % of them were as fast or faster.")
    max: float = Field(description="The slowest of them took so long.")

    @classmethod
    def of(cls, ascending: Sequence[float]) -> LatencyView | None:
        """Return percentiles by the nearest-rank method; None if there are no attempts."""
        if not ascending:
            return None
        ranks = {name: -(-len(ascending) * share // 100) for name, share in _SHARES.items()}
        return cls(**{name: round(ascending[rank - 1], 3) for name, rank in ranks.items()})


class DeliveryCounts(BaseModel):
    """Deliveries by their current status."""

    total: int = Field(description="All deliveries of the time window.")
    by_status: dict[DeliveryStatus, int] = Field(description="The same by their present status.")

    @property
    def ended(self) -> int:
        """Those that were delivered or given up, without those that somebody cancelled."""
        return sum(self.by_status[status] for status in _ENDED)


class AttemptCounts(BaseModel):
    """Attempts by their result."""

    total: int = Field(description="All attempts of these deliveries.")
    by_result: dict[Result, int] = Field(description="The same by their result.")


class StatsView(BaseModel):
    """The deliveries of a time window, and their attempts so far."""

    endpoint_id: str
    since: Time = Field(description="Start of the counted time.")
    until: Time = Field(description="End of the counted time.")
    complete: bool = Field(
        description=f"False if there were more than {MAX_DELIVERIES:,} deliveries or "
        f"{MAX_ATTEMPTS:,} attempts, of which only the newest are counted; or if retention has "
        "deleted some of them, so that only whole days that are kept are counted. `since` is the "
        "start of the counted time."
    )
    deliveries: DeliveryCounts = Field(description="The deliveries created in that time.")
    success_rate: float | None = Field(
        description="Share of the ended deliveries (`delivered`, `dead`, `gone`) that were "
        "delivered; null while none has ended."
    )
    attempts: AttemptCounts = Field(description="The attempts of these deliveries.")
    latency_ms: LatencyView | None = Field(
        description="How fast the receiver responded; null if it never did."
    )


@routes.post("/endpoints/{endpoint_id}/verify", summary="Verify an endpoint again")
async def verify_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Writer
) -> VerifiedView:
    """Asks the receiver again about every subscribed topic. If it does not agree, the response is
    422 `verification_failed`. Nothing is changed either way. Verifications share the limit of test
    sends."""
    async with context.database.read() as connection:
        endpoint = require_push(owned(await endpoints.get(connection, endpoint_id), principal))
        topics = await subscriptions.patterns_of_endpoint(connection, endpoint_id)
    await verify_stored(context, endpoint, topics)
    return VerifiedView(
        endpoint_id=endpoint_id,
        url=endpoint.url,
        verification=endpoint.verification,
        topics=topics or [EVERYTHING],
    )


@routes.get("/endpoints/{endpoint_id}/stats", summary="Get an endpoint's statistics")
async def get_endpoint_stats(
    endpoint_id: EndpointPath,
    context: AppContext,
    principal: Reader,
    since: Annotated[
        TimeInput | None, Query(description="Created at this time or later; default: a day ago.")
    ] = None,
    until: Annotated[
        TimeInput | None, Query(description="Created before this time; default: now.")
    ] = None,
) -> StatsView:
    """The results of its deliveries in a time window, and how fast it responds."""
    until = until or context.clock()
    since = since or max(until, _EARLIEST + _WINDOW) - _WINDOW
    if since >= until:
        raise InvalidInput.at("since", "must be before `until`")
    async with context.database.read() as connection:
        owned(await endpoints.get(connection, endpoint_id), principal)
        stats = await endpoint_stats.read(connection, endpoint_id, since=since, until=until)
    deliveries = DeliveryCounts(
        total=stats.deliveries.total(),
        by_status={status: stats.deliveries[status] for status in DeliveryStatus},
    )
    delivered = deliveries.by_status[DeliveryStatus.DELIVERED]
    return StatsView(
        endpoint_id=endpoint_id,
        since=stats.since,
        until=until,
        complete=stats.complete,
        deliveries=deliveries,
        success_rate=delivered / deliveries.ended if deliveries.ended else None,
        attempts=AttemptCounts(
            total=stats.attempts.total(),
            by_result={result: stats.attempts[result] for result in Result},
        ),
        latency_ms=LatencyView.of(stats.answered_ms),
    )
