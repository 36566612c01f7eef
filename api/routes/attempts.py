"""Attempts across deliveries: listed, and read in the order in which they were recorded."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from api.access.authentication import Reader
from api.context.context import AppContext
from api.forms.delivery_filter import STATUSES
from api.http.fields import (
    AnswerQuery,
    EndpointFilter,
    EventFilter,
    EventTypeFilter,
    SubscriptionFilter,
    TenantFilter,
    Time,
    TimeInput,
)
from api.http.pagination import PageQuery
from api.http.routing import router
from api.routes.deliveries import AttemptMembers
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.feed import attempt_feed
from hookfast.storage.feed.cursor import MAX_LENGTH, AttemptCursor

routes = router("Deliveries")


class ListedAttempt(AttemptMembers):
    """One request and its result, with its delivery as it is now."""

    delivery_id: str
    event_id: str
    event_type: str
    subscription_id: str
    endpoint_id: str
    tenant_id: str
    delivery_status: DeliveryStatus = Field(description=STATUSES)
    delivery_reason: str | None = Field(
        description="Why the delivery waits or ended; null if there is no problem."
    )
    attempt_count: int = Field(description="The delivery's requests so far, including this one.")
    next_attempt_at: Time | None = Field(
        description="When the delivery's next attempt is due; null if none is planned."
    )


class AttemptListing(BaseModel):
    """Attempts, newest first, or with `after` in the order in which they were recorded."""

    data: list[ListedAttempt] = Field(
        description="The attempts of this page; it may be empty although others follow."
    )
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null on the last page, and with `after`."
    )
    tail_cursor: str = Field(
        description="Pass it as `after` to read the attempts that were recorded later."
    )
    done: bool = Field(description="There is no further page now.")


@routes.get("/attempts", summary="List attempts")
async def list_attempts(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    status: Annotated[
        DeliveryStatus | None, Query(description="The delivery's present status.")
    ] = None,
    endpoint_id: EndpointFilter = None,
    subscription_id: SubscriptionFilter = None,
    event_id: EventFilter = None,
    event_type: EventTypeFilter = None,
    answer: AnswerQuery = None,
    tenant_id: TenantFilter = None,
    since: Annotated[TimeInput | None, Query(description="Began at this time or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Began before this time.")] = None,
    after: Annotated[
        str | None,
        Query(
            max_length=MAX_LENGTH,
            description="The `tail_cursor` of an earlier response: returns the attempts that were "
            "recorded after it, oldest first. No attempt is missed, however long it took.",
        ),
    ] = None,
) -> AttemptListing:
    """All given filters must match; `answer` is the attempt's own. A page scans at most
    2,000 attempts for matching ones: it may have fewer than `limit`, even none, and still be
    followed by others."""
    chosen = DeliveryFilter(
        status=status,
        endpoint_id=endpoint_id,
        subscription_id=subscription_id,
        event_id=event_id,
        event_type=None
        if event_type is None
        else parse_event_type(event_type, pointer="event_type"),
        answer=None if answer is None else parse_answer(answer, pointer="answer"),
        tenant_id=principal.tenant_for(tenant_id),
        since=since,
        until=until,
    )
    now = context.clock()
    if after is not None:
        if page.after is not None:
            raise InvalidInput.at("cursor", "use either `cursor` or `after`")
        place = AttemptCursor.parse(after)
        async with context.database.read() as connection:
            tail = await attempt_feed.read_tail(
                connection, chosen, after=place, limit=page.limit, now=now
            )
        return AttemptListing(
            data=[_view(row) for row in tail.rows],
            next_cursor=None,
            tail_cursor=str(tail.cursor),
            done=not tail.more,
        )
    async with context.database.read() as connection:
        # before the list, so that what is recorded meanwhile is in one of them or in both
        end = await attempt_feed.end_cursor(connection, now=now)
        listed = await attempt_feed.list_page(
            connection, chosen, after=page.after, limit=page.limit
        )
    last = listed.scanned_to
    return AttemptListing(
        data=[_view(row) for row in listed.rows],
        next_cursor=None if last is None else page.cursor(last),
        tail_cursor=str(end),
        done=last is None,
    )


def _view(row: Any) -> ListedAttempt:
    members = dict(row._mapping)
    if row.status == DeliveryStatus.HELD:  # the row has the time of its next check
        members["next_attempt_at"] = None
    return ListedAttempt(
        **members,
        delivery_status=row.status,
        delivery_reason=row.reason,
        attempt_count=row.attempts,
    )
