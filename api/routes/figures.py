"""Figures: deliveries and attempts over time, by their results, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.ownership import check_tenant_exists, owned
from api.context.context import AppContext
from api.forms.figure_steps import (
    MAX_STEPS,
    MAX_STEPS_BY_TYPE,
    USUAL_STEPS,
    By,
    Step,
    choose_edges,
)
from api.http.fields import EndpointId, TenantFilter, Time, TimeInput
from api.http.routing import router
from hookfast.deliveries.figures import Numbers, percentile
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import NotFound
from hookfast.storage.counting import folding, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.endpoints import endpoints

routes = router("Figures")

MAX_TYPES = 100
_SHARES = (50, 95, 99)
_PRECISION = "At most 12 % above or below the exact value."


class FigureCounts(BaseModel):
    """What happened in a time."""

    accepted: int = Field(description="Deliveries created in it.")
    attempts: int = Field(description="Requests to endpoints that began in it.")
    succeeded: int = Field(description="The attempts that got a 2xx.")
    delivered: int = Field(description="Deliveries that ended as `delivered` in it.")
    dead: int = Field(description="Deliveries that ended as `dead` in it.")
    gone: int = Field(description="Deliveries that ended as `gone` in it.")
    cancelled: int = Field(description="Deliveries that ended as `cancelled` in it.")


class FigureSums(FigureCounts):
    """What happened in a time, and the groups that `by` asks for."""

    by_result: dict[str, int] | None = Field(
        description="With `by=result`: the attempts by their answer, which is `success`, the class "
        "of another status such as `5xx`, or what went wrong, such as `timeout`."
    )
    by_status: dict[DeliveryStatus, int] | None = Field(
        description="With `by=status`: the accepted deliveries by their present status."
    )
    by_reason: dict[str, int] | None = Field(
        description="With `by=status`: the deliveries that ended as `dead` or `gone` by their "
        "reason, such as `retries_exhausted`."
    )
    by_type: dict[str, FigureCounts] | None = Field(
        description=f"With `by=type`: the counts of each event type, of the {MAX_TYPES} with the "
        "most deliveries and attempts."
    )


class FigureTimes(BaseModel):
    """Response times of the attempts that got a response, and times to delivery, in
    milliseconds. Null if there were none."""

    p50_ms: float | None = Field(
        description=f"Half of the responses were as fast or faster. {_PRECISION}"
    )
    p95_ms: float | None = Field(description=f"95 % of them were as fast or faster. {_PRECISION}")
    p99_ms: float | None = Field(description=f"99 % of them were as fast or faster. {_PRECISION}")
    delivery_p50_ms: float | None = Field(
        description="Half of the deliveries that ended as `delivered` did so within this time from "
        f"when they were due. Those that were sent again after an end do not count. {_PRECISION}"
    )
    delivery_p95_ms: float | None = Field(description=f"95 % of them did. {_PRECISION}")
    delivery_p99_ms: float | None = Field(description=f"99 % of them did. {_PRECISION}")


class _Began(BaseModel):
    at: Time = Field(description="When the step begins.")


class FigureStep(FigureTimes, FigureSums, _Began):
    """The figures of one step."""


class _Window(BaseModel):
    since: Time = Field(description="When the first step begins.")
    until: Time = Field(description="When the last step ends.")
    step_seconds: int = Field(description="How long a step is.")


class FigureSeries(FigureTimes, _Window):
    """Figures over time. Every step is in `data`; one in which nothing happened has zeros. The
    groups have the same members in each step, and in `total`."""

    more_types: int | None = Field(
        description=f"With `by=type`: how many event types are not among the {MAX_TYPES}."
    )
    total: FigureSums = Field(description="The sums of all steps.")
    data: list[FigureStep] = Field(description="The steps, oldest first.")


@routes.get("/figures", summary="Get figures over time")
async def get_figures(
    context: AppContext,
    principal: Reader,
    tenant_id: TenantFilter = None,
    endpoint_id: Annotated[
        EndpointId | None, Query(description="Only the figures of this endpoint.")
    ] = None,
    since: Annotated[
        TimeInput | None,
        Query(description="The first step contains this time. Default: 24 hours before `until`."),
    ] = None,
    until: Annotated[
        TimeInput | None,
        Query(description="The last step contains this time or ends at it. Default: now."),
    ] = None,
    step: Annotated[
        Step | None,
        Query(
            description="How long each step is. Steps begin at round times (UTC): those of minutes "
            "less than two days ago, those of hours less than 40 days ago. At most "
            f"{MAX_STEPS:,} steps; with `by=type` {MAX_STEPS_BY_TYPE}, of an hour or longer. "
            f"Default: the shortest of which there are about {USUAL_STEPS}."
        ),
    ] = None,
    by: Annotated[
        By | None,
        Query(
            description="Also counts attempts by their `result`, deliveries by their `status` and "
            "reason, or both by event `type`."
        ),
    ] = None,
) -> FigureSeries:
    """Deliveries and attempts, counted in the transactions that recorded them: exact at any time,
    and kept for longer than the deliveries.

    An attempt counts when it began. A delivery counts as `accepted` when it was created, and as
    `delivered`, `dead`, `gone` or `cancelled` when it ended. A resent delivery may end again.
    """
    edges = choose_edges(since, until, step, by=by, now=context.clock())
    async with context.database.read() as connection:
        await folding.freeze(connection)
        scope = await _scope(connection, principal, tenant_id, endpoint_id)
        steps = await reading.steps(connection, scope, edges)
        names: Sequence[str] = ()
        types: Mapping[str, Sequence[Numbers]] = {}
        if by == "type":
            names = await reading.types_by_frequency(connection, scope, edges)
            shown = names[:MAX_TYPES]
            types = await reading.steps_by_type(connection, scope, edges, only=shown)
    whole = _sum(steps)
    whole_types = {name: _sum(each) for name, each in types.items()}
    return FigureSeries(
        since=edges[0],
        until=edges[-1],
        step_seconds=int((edges[1] - edges[0]).total_seconds()),
        more_types=len(names) - len(types) if by == "type" else None,
        data=[
            FigureStep(
                at=at,
                **_counts(numbers),
                **_times(numbers),
                **_groups(by, numbers, {name: each[place] for name, each in types.items()}, whole),
            )
            for place, (at, numbers) in enumerate(zip(edges, steps, strict=False))
        ],
        total=FigureSums(**_counts(whole), **_groups(by, whole, whole_types, whole)),
        **_times(whole),
    )


async def _scope(
    connection: AsyncConnection,
    principal: Principal,
    tenant_id: str | None,
    endpoint_id: str | None,
) -> Scope:
    """Return whose figures are read. Raises NotFound if they are not the caller's."""
    tenant_id = principal.tenant_for(tenant_id)
    endpoint_id = principal.endpoint_for(endpoint_id)
    if endpoint_id is None:
        await check_tenant_exists(connection, tenant_id)
    else:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        if tenant_id not in (None, endpoint.tenant_id):
            raise NotFound("This endpoint belongs to another tenant.")
    return Scope(tenant_id=tenant_id, endpoint_id=endpoint_id)


def _sum(steps: Sequence[Numbers]) -> Numbers:
    whole = Numbers()
    for each in steps:
        whole.update(each)
    return whole


def _counts(numbers: Numbers) -> dict[str, int]:
    """Return the members of FigureCounts."""
    ended = {each.value: numbers.ended_as(each) for each in DeliveryStatus if each.finished}
    return ended | {
        "accepted": numbers.accepted,
        "attempts": numbers.attempted,
        "succeeded": numbers.succeeded,
    }


def _times(numbers: Numbers) -> dict[str, float | None]:
    """Return the members of FigureTimes, to three digits."""
    kinds = (("", numbers.response_ms), ("delivery_", numbers.delivery_ms))
    return {
        f"{kind}p{share}_ms": None
        if (value := percentile(buckets, share)) is None
        else float(f"{value:.3g}")
        for kind, buckets in kinds
        for share in _SHARES
    }


def _groups(
    by: By | None, numbers: Numbers, types: Mapping[str, Numbers], whole: Numbers
) -> dict[str, Any]:
    """Return the groups of a step. They have the members that occur in the whole time."""
    answers, reasons = numbers.by_answer(), numbers.by_reason()
    groups: dict[str, Any] = dict.fromkeys(("by_result", "by_status", "by_reason", "by_type"))
    match by:
        case "result":
            groups["by_result"] = {each: answers[each] for each in sorted(whole.by_answer())}
        case "status":
            groups["by_status"] = {each: numbers.deliveries[each] for each in DeliveryStatus}
            groups["by_reason"] = {each: reasons[each] for each in sorted(whole.by_reason())}
        case "type":
            groups["by_type"] = {
                name: FigureCounts(**_counts(each)) for name, each in types.items()
            }
    return groups
