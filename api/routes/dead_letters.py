"""Dead letters: deliveries that ended without success, counted, listed and redriven."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import Query, Response
from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.context.context import AppContext
from api.forms import jobs
from api.forms.delivery_filter import REASONS, DeadLetterChoiceForm, FilteredJobOptions
from api.forms.jobs import JOB_ROUTE, JobView
from api.http.fields import (
    AnswerQuery,
    EndpointFilter,
    EventTypeFilter,
    Since,
    TenantFilter,
    Until,
    example,
)
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.routes.deliveries import DeliveryView, delivery_listing
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.job import JobKind
from hookfast.deliveries.outcome import parse_reason
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.deliveries.dead_letters import TOP, DeadLetterStats
from hookfast.storage.deliveries.deliveries import DeliveryFilter

routes = router("Dead letters")


_TOP = f"The most frequent first, at most {TOP}."


class EndpointCount(BaseModel):
    """The number of dead letters of one endpoint."""

    endpoint_id: str
    count: int = Field(description="Its dead letters that are kept.")


class EventTypeCount(BaseModel):
    """The number of dead letters of one event type."""

    event_type: str
    count: int = Field(description="Dead letters of this type.")


class ReasonCount(BaseModel):
    """The number of dead letters with one reason."""

    reason: str | None = Field(description="Why they ended, e.g. `retries_exhausted`.")
    count: int = Field(description="Dead letters with this reason.")


class AgeCounts(BaseModel):
    """The number of dead letters by age."""

    under_1_hour: int = Field(description="Less than an hour old.")
    under_1_day: int = Field(description="At least an hour old.")
    under_7_days: int = Field(description="At least a day old.")
    older: int = Field(description="Seven days old, or older.")


class DeadLetterStatsView(BaseModel):
    """The number of dead letters, in total and by group; the most frequent groups first."""

    total: int = Field(description="All dead letters that match.")
    by_endpoint: list[EndpointCount] = Field(description=_TOP)
    by_event_type: list[EventTypeCount] = Field(description=_TOP)
    by_reason: list[ReasonCount] = Field(description=_TOP)
    by_age: AgeCounts = Field(description="By the time since they ended.")

    @classmethod
    def of(cls, stats: DeadLetterStats) -> Self:
        ages = stats.by_age
        return cls(
            total=stats.total,
            by_endpoint=[EndpointCount(endpoint_id=id_, count=n) for id_, n in stats.by_endpoint],
            by_event_type=[EventTypeCount(event_type=t, count=n) for t, n in stats.by_event_type],
            by_reason=[ReasonCount(reason=r, count=n) for r, n in stats.by_reason],
            by_age=AgeCounts(
                under_1_hour=ages.hour,
                under_1_day=ages.day,
                under_7_days=ages.week,
                older=ages.older,
            ),
        )


class RedriveForm(FilteredJobOptions):
    """The dead letters to send again."""

    model_config = example(filter={"event_type": "order.invoice.paid", "answer": "5xx"})

    filter: DeadLetterChoiceForm = Field(
        default_factory=DeadLetterChoiceForm, description="Which dead letters; see `all` for all."
    )


@routes.get("/dead-letters", summary="List dead letters")
async def list_dead_letters(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointFilter = None,
    event_type: EventTypeFilter = None,
    reason: Annotated[
        str | None, Query(max_length=200, description=REASONS, examples=["retries_exhausted"])
    ] = None,
    answer: AnswerQuery = None,
    tenant_id: TenantFilter = None,
    since: Since = None,
    until: Until = None,
) -> Listing[DeliveryView]:
    """Deliveries that are `dead` or `gone`. All given filters must match. `answer` is the answer to
    the newest attempt."""
    if event_type is not None:
        parse_event_type(event_type, pointer="event_type")
    if reason is not None:
        parse_reason(reason, pointer="reason")
    chosen = DeliveryFilter(
        endpoint_id=endpoint_id,
        event_type=event_type,
        reason=reason,
        answer=None if answer is None else parse_answer(answer, pointer="answer"),
        tenant_id=principal.tenant_for(tenant_id),
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows = await dead_letters.list_page(connection, chosen, after=page.after, limit=page.rows)
        return await delivery_listing(connection, page, rows)


@routes.get("/dead-letters/stats", summary="Count dead letters")
async def count_dead_letters(
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointFilter = None,
    tenant_id: TenantFilter = None,
) -> DeadLetterStatsView:
    """Counts by endpoint, event type, reason and age, which is the time since they died."""
    tenant = principal.tenant_for(tenant_id)
    async with context.database.read() as connection:
        stats = await dead_letters.stats(
            connection, endpoint_id=endpoint_id, tenant_id=tenant, now=context.clock()
        )
    return DeadLetterStatsView.of(stats)


@routes.post("/dead-letters/redrive", summary="Send dead letters again", **JOB_ROUTE)
async def redrive_dead_letters(
    form: RedriveForm, context: AppContext, audit: Audit, principal: Writer
) -> JobView | Response:
    """Each delivery starts its whole retry plan again, under the same message id. Deliveries whose
    endpoint is disabled are skipped."""
    form.check(form.filter)
    return await jobs.create_or_count(
        context,
        principal,
        audit,
        kind=JobKind.REDRIVE,
        action="resend",
        chosen=form.filter.selection(*DEAD),
        options=form,
    )
