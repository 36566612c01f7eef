"""Checks of an endpoint: another verification, and statistics. For tests see `endpoint_tests`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated, Self

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.authentication import Reader, Writer
from api.access.ownership import owned
from api.context.context import AppContext
from api.forms.endpoint import require_push
from api.forms.verification import EVERYTHING, verify_stored
from api.http.fields import EndpointPath, Time, TimeInput
from api.http.routing import router
from hookfast.deliveries.figures import Numbers, percentile, result_of
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.errors import InvalidInput
from hookfast.resources.endpoint import Verification
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.endpoints import endpoints, subscriptions

routes = router("Endpoint checks")

_WINDOW = timedelta(hours=24)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_SHARES = {"p50": 50, "p95": 95, "p99": 99}
_ENDED = (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD, DeliveryStatus.GONE)


class VerifiedView(BaseModel):
    """The topics that the receiver agreed to."""

    endpoint_id: str
    url: str = Field(description="The URL that was asked.")
    verification: Verification = Field(description="`none`: only the URL's address was checked.")
    topics: list[str] = Field(description="The patterns of its subscriptions.")


class LatencyView(BaseModel):
    """Durations of the attempts that got a response, in milliseconds, at most 12 % away from the
    exact ones."""

    p50: float = Field(description="Half of them were as fast or faster (the median).")
    p95: float = Field(description="95 % of them were as fast or faster.")
    p99: float = Field(description="99 % of them were as fast or faster.")

    @classmethod
    def of(cls, response_ms: Counter[int]) -> Self | None:
        """Return the percentiles of these buckets, to three digits; None if there are none."""
        found = {name: percentile(response_ms, share) for name, share in _SHARES.items()}
        known = {name: float(f"{ms:.3g}") for name, ms in found.items() if ms is not None}
        return cls(**known) if known else None


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

    total: int = Field(description="All attempts of the time window.")
    by_result: dict[Result, int] = Field(description="The same by their result.")


class StatsView(BaseModel):
    """The deliveries and attempts of a time window."""

    endpoint_id: str
    since: Time = Field(
        description="Start of the counted time, which may be longer than the requested one: "
        "figures are kept by the minute, after two days by the hour, and after forty by the day "
        "(UTC)."
    )
    until: Time = Field(description="End of the counted time.")
    deliveries: DeliveryCounts = Field(description="The deliveries created in that time.")
    success_rate: float | None = Field(
        description="Share of the ended deliveries (`delivered`, `dead`, `gone`) that were "
        "delivered; null while none has ended."
    )
    attempts: AttemptCounts = Field(
        description="The attempts made in that time, of earlier deliveries too."
    )
    latency_ms: LatencyView | None = Field(
        description="How fast the receiver responded; null if it never did."
    )

    @classmethod
    def of(cls, numbers: Numbers, endpoint_id: str, *, since: datetime, until: datetime) -> Self:
        """Return the statistics by an endpoint's figures between these times."""
        deliveries = DeliveryCounts(
            total=numbers.accepted,
            by_status={status: numbers.deliveries[status] for status in DeliveryStatus},
        )
        by_result = dict.fromkeys(Result, 0)
        for answer, number in numbers.by_answer().items():
            by_result[result_of(answer)] += number
        delivered = deliveries.by_status[DeliveryStatus.DELIVERED]
        return cls(
            endpoint_id=endpoint_id,
            since=since,
            until=until,
            deliveries=deliveries,
            success_rate=delivered / deliveries.ended if deliveries.ended else None,
            attempts=AttemptCounts(total=numbers.attempted, by_result=by_result),
            latency_ms=LatencyView.of(numbers.response_ms),
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
        TimeInput | None, Query(description="Start of the time window; default: a day ago.")
    ] = None,
    until: Annotated[
        TimeInput | None, Query(description="End of the time window; default: now.")
    ] = None,
) -> StatsView:
    """The deliveries and attempts of a time window by their results, and how fast it responds."""
    now = context.clock()
    until = until or now
    since = since or max(until, _EARLIEST + _WINDOW) - _WINDOW
    if since >= until:
        raise InvalidInput.at("since", "must be before `until`")
    since, until = reading.extended(since, until, now=now)
    async with context.database.read() as connection:
        owned(await endpoints.get(connection, endpoint_id), principal)
        [numbers] = await reading.steps(connection, Scope(endpoint_id=endpoint_id), [since, until])
    return StatsView.of(numbers, endpoint_id, since=since, until=until)
