"""The deliveries: filtered, updated live, and selected for actions on many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Query, Response

from api.access.authentication import Principal, Reader
from api.context.context import AppContext, Context
from api.dashboard.pages import delivery_chart, tenant_names
from api.dashboard.pages.filter_choices import endpoints_to_choose, names_of
from api.dashboard.site import DASHBOARD
from api.http.fields import AnswerQuery, EndpointId, EventId, SubscriptionId, TenantId
from api.http.pagination import Listing, Page, PageQuery
from api.routes.deliveries import DeliveryView, list_deliveries
from api.site import live
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_range import RangeQuery
from hookfast.deliveries.actions import ACTIONS
from hookfast.deliveries.answer import SUGGESTED_ANSWERS, parse_answer
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.deliveries.deliveries import DeliveryFilter as StoredFilter

routes = PageRouter(DASHBOARD)

_EVERY_SECONDS = 2.0
_MOST_ROWS = 25  # of a page, which has a chart too and stays below 100 KB


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """The filter of the list, read from the query."""

    times: RangeQuery
    status: DeliveryStatus | None = None
    endpoint_id: EndpointId | None = None
    subscription_id: SubscriptionId | None = None
    event_id: EventId | None = None
    event_type: Annotated[str | None, Query(max_length=200)] = None
    answer: AnswerQuery = None
    tenant_id: TenantId | None = None

    @property
    def _named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "times"}

    def query(self, view: View) -> dict[str, Any]:
        """Return the parameters of the API's list."""
        return self.times.narrowed(self._named, view)

    def members(self, view: View) -> dict[str, str]:
        """Return the members of the API's filter, for the form that acts on all matches."""
        given = self.query(view) | self.times.members(view.now)
        given["status"] = self.status and self.status.value
        return {name: value for name, value in given.items() if value}

    def stored(self, view: View) -> StoredFilter:
        """Return the filter as storage has it."""
        answer = None if self.answer is None else parse_answer(self.answer, pointer="answer")
        return StoredFilter(**self.query(view) | {"answer": answer})

    @property
    def any(self) -> bool:
        """Whether any filter is set."""
        return self.times.any or any(value is not None for value in self._named.values())


FilterQuery = Annotated[DeliveryFilter, Depends(DeliveryFilter)]


@routes.get("/deliveries")
async def deliveries_page(
    view: PageView, page: PageQuery, context: AppContext, principal: Reader, chosen: FilterQuery
) -> Response:
    """List the deliveries, newest first."""
    endpoints = await endpoints_to_choose(view, context, principal)
    listing = await _list(page, context, principal, view=view, chosen=chosen)
    volume = await delivery_chart.read(view, principal, chosen.stored(view))
    return view.render(
        "deliveries.html",
        listing=listing,
        volume=volume,
        chosen=chosen,
        members=chosen.members(view),
        endpoints=endpoints,
        names=names_of(endpoints),
        actions=sorted(ACTIONS.values(), key=lambda action: not action.sends),
        statuses=[(status.value, status.value) for status in DeliveryStatus],
        answers=SUGGESTED_ANSWERS,
        is_first=page.after is None,
    )


@routes.get("/live/deliveries")
async def deliveries_live(
    view: PageView, page: PageQuery, context: AppContext, principal: Reader, chosen: FilterQuery
) -> Response:
    """Stream the list of deliveries."""
    names = names_of(await endpoints_to_choose(view, context, principal))

    async def read() -> dict[str, Any]:
        listing = await _list(page, context, principal, view=view, chosen=chosen)
        return {"listing": listing, "names": names}

    return live.stream(view, "delivery_rows.html", read, every=_EVERY_SECONDS)


async def _list(
    page: Page, context: Context, principal: Principal, *, view: View, chosen: DeliveryFilter
) -> Listing[DeliveryView]:
    listing = await list_deliveries(
        replace(page, limit=min(page.limit, _MOST_ROWS)),
        context,
        principal,
        **chosen.query(view),
    )
    await tenant_names.load_owners(view, listing.data)
    return listing
