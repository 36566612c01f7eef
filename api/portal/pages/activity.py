"""The activity: messages and tests in one list, and each with its requests and answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Response

from api.access.authentication import Principal, Reader
from api.context.context import Context
from api.forms.endpoint import EndpointView
from api.forms.endpoint_test import ListedTest
from api.http.fields import DeliveryPath, EndpointId
from api.http.pagination import MAX_LIMIT, Listing, Page, PageQuery
from api.portal.pages.event_types import catalogue
from api.portal.site import PORTAL
from api.portal.words import State, delivery_state, reason_of, state_of_test
from api.routes.dead_letters import list_dead_letters
from api.routes.deliveries import (
    DeliveryDetail,
    DeliveryView,
    cancel_delivery,
    get_delivery,
    list_deliveries,
    resend_delivery,
    resume_delivery,
)
from api.routes.endpoint_tests import get_test, list_tests
from api.routes.endpoints import get_endpoint, list_endpoints
from api.site import live
from api.site.formatting import answer, endpoint_name
from api.site.json_view import pretty
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery
from hookfast.deliveries.answer import answer_name
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import NotFound
from hookfast.storage.events import events

routes = PageRouter(PORTAL)

Kind = Literal["delivered", "failed", "retrying", "waiting", "test"]
KINDS = (
    ("", "everything"),
    ("delivered", "delivered"),
    ("failed", "failed"),
    ("retrying", "retrying"),
    ("waiting", "waiting"),
    ("test", "tests"),
)
_STATUSES = {
    "delivered": DeliveryStatus.DELIVERED,
    "retrying": DeliveryStatus.RETRYING,
    "waiting": DeliveryStatus.HELD,
}
_ALL = Page(limit=MAX_LIMIT, after=None)
_EVERY_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the list: a message on its way to an endpoint, or a test."""

    id: str
    event_type: str
    endpoint_id: str
    at: datetime
    is_test: bool
    state: State
    answer: str | None
    attempts: int
    next_attempt_at: datetime | None = None
    reason: str = ""

    @classmethod
    def of_delivery(cls, delivery: DeliveryView, *, is_off: bool) -> Entry:
        """Return the line of a delivery. `is_off`: its endpoint is off, so no attempt follows."""
        last = delivery.last_answer
        return cls(
            id=delivery.id,
            event_type=delivery.event_type,
            endpoint_id=delivery.endpoint_id,
            at=delivery.created_at,
            is_test=False,
            state=delivery_state(delivery.status, is_off=is_off),
            answer=None if last is None else answer(last),
            attempts=delivery.attempt_count,
            next_attempt_at=None
            if delivery.status.finished or is_off
            else delivery.next_attempt_at,
            reason=reason_of(delivery.reason),
        )

    @classmethod
    def of_test(cls, test: ListedTest) -> Entry:
        """Return the line of a test."""
        return cls(
            id=test.id,
            event_type=test.event_type,
            endpoint_id=test.endpoint_id,
            at=test.started_at,
            is_test=True,
            state=state_of_test(test.result),
            answer=answer_name(test.result, test.status_code),
            attempts=1,
        )


@dataclass(frozen=True, slots=True)
class ActivityFilter:
    """The filter of the list, read from the query."""

    times: RangeQuery
    kind: Kind | None = None
    endpoint_id: EndpointId | None = None
    event_type: Annotated[str | None, Query(max_length=200)] = None

    @property
    def any(self) -> bool:
        """Whether any filter is set."""
        chosen = (self.kind, self.endpoint_id, self.event_type)
        return self.times.any or any(each is not None for each in chosen)


FilterQuery = Annotated[ActivityFilter, Depends(ActivityFilter)]


@routes.get("/activity")
async def activity_page(
    view: PageView, page: PageQuery, principal: Reader, chosen: FilterQuery
) -> Response:
    """List messages and tests, newest first."""
    endpoints = await _endpoints(view, principal)
    branches = await catalogue(view.context, principal)
    return view.render(
        "activity.html",
        listing=await _list(page, view, principal, chosen, _off(endpoints)),
        names=_names(endpoints),
        endpoints=endpoints,
        event_types=[leaf.name for branch in branches for leaf in branch.leaves],
        kinds=KINDS,
        chosen=chosen,
        is_first=page.after is None,
    )


@routes.get("/live/activity")
async def activity_live(
    view: PageView, page: PageQuery, principal: Reader, chosen: FilterQuery
) -> Response:
    """Stream the list."""
    # an unknown endpoint answers 404 here: later, the stream would only end
    await _endpoints(view, principal)

    async def read() -> dict[str, Any]:
        endpoints = await _endpoints(view, principal)
        listing = await _list(page, view, principal, chosen, _off(endpoints))
        return {"listing": listing, "names": _names(endpoints)}

    return live.stream(view, "activity_rows.html", read, every=_EVERY_SECONDS)


@routes.get("/activity/{delivery_id}")
async def message_page(delivery_id: DeliveryPath, view: PageView, principal: Reader) -> Response:
    """Show a message with its attempts, or a test: each request and its answer in full."""
    endpoints = await _endpoints(view, principal)
    names = _names(endpoints)
    try:
        test = await get_test(delivery_id, view.context, principal)
    except NotFound:
        delivery = await get_delivery(delivery_id, view.context, principal)
        is_off = delivery.endpoint_id in _off(endpoints)
    else:
        body = pretty(test.request_body)[0]
        state = state_of_test(test.result)
        return view.render("test.html", test=test, state=state, body=body, names=names)
    return view.render(
        "message.html",
        delivery=delivery,
        state=delivery_state(delivery.status, is_off=is_off),
        reason=reason_of(delivery.reason),
        body=await _body(delivery, view.context),
        names=names,
        is_off=is_off,
    )


routes.action("/activity/{delivery_id}/resend", resend_delivery, "The message is being resent.")
routes.action("/activity/{delivery_id}/resume", resume_delivery, "The message is being sent.")


routes.confirmed_action(
    "/activity/{delivery_id}/cancel",
    cancel_delivery,
    "The message is being cancelled.",
    of=Annotated[DeliveryDetail, Depends(get_delivery)],
    title="Cancel this message?",
    about=lambda delivery: delivery.event_type,
    text="It is not tried again. You can resend it later.",
    button="Cancel the message",
)


async def entries(
    page: Page, view: View, principal: Principal, endpoint: EndpointView
) -> list[Entry]:
    """Return the newest messages and tests of an endpoint."""
    chosen: dict[str, Any] = {"endpoint_id": endpoint.id, "tenant_id": view.tenant_id}
    messages = await list_deliveries(page, view.context, principal, **chosen)
    tests = await list_tests(page, view.context, principal, **chosen)
    return _merged(messages.data, tests.data, _off([endpoint]))[: page.limit]


async def _list(
    page: Page, view: View, principal: Principal, chosen: ActivityFilter, off: set[str]
) -> Listing[Entry]:
    """Return a page of the list. Ids of messages and tests sort by time alike, so each page is
    the newest of both after the last id of the page before."""
    query: dict[str, Any] = {
        "endpoint_id": chosen.endpoint_id,
        "event_type": chosen.event_type,
        "tenant_id": view.tenant_id,
        "since": chosen.times.start(view.now),
        "until": chosen.times.until,
    }
    messages: list[DeliveryView] = []
    tests: list[ListedTest] = []
    more = False
    if chosen.kind == "failed":
        found = await list_dead_letters(page, view.context, principal, **query)
        messages, more = found.data, found.next_cursor is not None
    elif chosen.kind != "test":
        status = None if chosen.kind is None else _STATUSES[chosen.kind]
        found = await list_deliveries(page, view.context, principal, status=status, **query)
        messages, more = found.data, found.next_cursor is not None
    if chosen.kind in (None, "test"):
        found_tests = await list_tests(page, view.context, principal, **query)
        tests, more = found_tests.data, more or found_tests.next_cursor is not None
    merged = _merged(messages, tests, off)
    shown = merged[: page.limit]
    more = more or len(merged) > len(shown)
    return Listing[Entry](
        data=shown, next_cursor=page.cursor(shown[-1].id) if more and shown else None
    )


async def _endpoints(view: View, principal: Principal) -> list[EndpointView]:
    """Return the endpoints that the visitor sees: with a link to one, only that."""
    if view.endpoint_id is not None:
        return [await get_endpoint(view.endpoint_id, view.context, principal)]
    listing = await list_endpoints(_ALL, view.context, principal, tenant_id=view.tenant_id)
    return listing.data


def _names(endpoints: list[EndpointView]) -> dict[str, str]:
    return {each.id: endpoint_name(each) for each in endpoints}


def _off(endpoints: list[EndpointView]) -> set[str]:
    """Return the ids of the endpoints that are off."""
    return {each.id for each in endpoints if each.state == "disabled"}


def _merged(messages: list[DeliveryView], tests: list[ListedTest], off: set[str]) -> list[Entry]:
    lines = [Entry.of_delivery(each, is_off=each.endpoint_id in off) for each in messages]
    lines += [Entry.of_test(each) for each in tests]
    return sorted(lines, key=lambda each: each.id, reverse=True)


async def _body(delivery: DeliveryDetail, context: Context) -> str | None:
    """Return the body of a message; None if it was deleted, or is not the event itself."""
    if delivery.payload != "full":
        return None
    async with context.database.read() as connection:
        event = await events.get(connection, delivery.event_id)
    return None if event is None else pretty(event.body.decode())[0]
