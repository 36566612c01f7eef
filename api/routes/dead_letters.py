"""Dead letters: what ended without success, counted, listed and sent again."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import Query, Response
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.forms import jobs
from api.forms.delivery_filter import REASONS, ChoiceOptions, DeadLetterChoiceForm
from api.forms.jobs import JOB_ANSWERS, JobView
from api.http.fields import EndpointId, TenantId, TimeInput
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.process.context import AppContext
from api.routes.deliveries import DeliveryView
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.outcome import parse_reason
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.deliveries.dead_letters import DEAD, TOP, DeadLetterFilter, DeadLetterStats

routes = router("Dead letters")


class EndpointCount(BaseModel):
    """An endpoint's dead letters."""

    endpoint_id: str
    count: int


class EventTypeCount(BaseModel):
    """An event type's dead letters."""

    event_type: str
    count: int


class ReasonCount(BaseModel):
    """The dead letters that died for one reason."""

    reason: str | None
    count: int


class AgeCounts(BaseModel):
    """How many died how long ago."""

    under_1_hour: int
    under_1_day: int = Field(description="An hour ago or more.")
    under_7_days: int = Field(description="A day ago or more.")
    older: int


class DeadLetterStatsView(BaseModel):
    """How many dead letters there are, and of what; the most frequent first."""

    total: int
    by_endpoint: list[EndpointCount] = Field(description=f"At most {TOP}.")
    by_event_type: list[EventTypeCount] = Field(description=f"At most {TOP}.")
    by_reason: list[ReasonCount] = Field(description=f"At most {TOP}.")
    by_age: AgeCounts

    @classmethod
    def of(cls, stats: DeadLetterStats) -> Self:
        ages = stats.by_age
        return cls(
            total=stats.total,
            by_endpoint=[EndpointCount(endpoint_id=of, count=n) for of, n in stats.by_endpoint],
            by_event_type=[EventTypeCount(event_type=of, count=n) for of, n in stats.by_event_type],
            by_reason=[ReasonCount(reason=of, count=n) for of, n in stats.by_reason],
            by_age=AgeCounts(
                under_1_hour=ages.hour,
                under_1_day=ages.day,
                under_7_days=ages.week,
                older=ages.older,
            ),
        )


class RedriveForm(ChoiceOptions):
    """Which dead letters to send again."""

    filter: DeadLetterChoiceForm = Field(default_factory=DeadLetterChoiceForm)


@routes.get("/dead-letters", summary="List dead letters")
async def list_dead_letters(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointId | None = None,
    event_type: Annotated[
        str | None, Query(max_length=200, examples=["order.invoice.paid"])
    ] = None,
    reason: Annotated[
        str | None, Query(max_length=200, description=REASONS, examples=["retries_exhausted"])
    ] = None,
    tenant_id: TenantId | None = None,
    since: Annotated[TimeInput | None, Query(description="Created then or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Created before then.")] = None,
) -> Listing[DeliveryView]:
    """Deliveries that are `dead` or `gone`. Filters add up."""
    if event_type is not None:
        parse_event_type(event_type, pointer="event_type")
    if reason is not None:
        parse_reason(reason, pointer="reason")
    chosen = DeadLetterFilter(
        endpoint_id=endpoint_id,
        event_type=event_type,
        reason=reason,
        tenant_id=principal.tenant_for(tenant_id),
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows = await dead_letters.list_page(connection, chosen, after=page.after, limit=page.rows)
    return page.answer(rows, key=lambda delivery: delivery.id, view=DeliveryView.of)


@routes.get("/dead-letters/stats", summary="Count dead letters")
async def count_dead_letters(
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointId | None = None,
    tenant_id: TenantId | None = None,
) -> DeadLetterStatsView:
    """By endpoint, event type, reason and age: how long ago they died."""
    chosen = DeadLetterFilter(endpoint_id=endpoint_id, tenant_id=principal.tenant_for(tenant_id))
    async with context.database.read() as connection:
        stats = await dead_letters.stats(connection, chosen, now=context.clock())
    return DeadLetterStatsView.of(stats)


@routes.post(
    "/dead-letters/redrive",
    status_code=202,
    summary="Send dead letters again",
    response_model=JobView,
    responses=JOB_ANSWERS,
)
async def redrive_dead_letters(
    form: RedriveForm, context: AppContext, audit: Audit, principal: Writer
) -> JobView | Response:
    """Each gets its whole retry plan again, under the same message id. Those whose endpoint is
    disabled are skipped."""
    form.check(form.filter)
    return await jobs.run(
        context,
        principal,
        audit,
        kind=JobKind.REDRIVE,
        action="resend",
        chosen=form.filter.chosen(*DEAD),
        options=form,
    )
