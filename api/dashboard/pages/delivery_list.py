"""The deliveries: chosen, followed as they come, and acted on many at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Depends, Query, Response

from api.access.authentication import Principal, Reader
from api.dashboard.site import live
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointId, EventId, SubscriptionId, TenantId, TimeInput
from api.http.pagination import Listing, Page, PageQuery
from api.process.context import AppContext, Context
from api.routes.deliveries import DeliveryView, list_deliveries
from api.routes.endpoints import list_endpoints
from hookfast.clock import rfc3339
from hookfast.deliveries.outcome import DeliveryStatus

routes = page_router()

Within = Literal["15m", "1h", "24h", "7d"]
SPANS: Final[Mapping[Within, tuple[timedelta, str]]] = {
    "15m": (timedelta(minutes=15), "15 minutes"),
    "1h": (timedelta(hours=1), "hour"),
    "24h": (timedelta(hours=24), "24 hours"),
    "7d": (timedelta(days=7), "7 days"),
}
_NAMED = Page(limit=200, after=None)
_EVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What the list is narrowed to."""

    status: DeliveryStatus | None
    endpoint_id: str | None
    subscription_id: str | None
    event_id: str | None
    event_type: str | None
    tenant_id: str | None
    within: Within | None
    since: datetime | None
    until: datetime | None

    def members(self, view: View) -> dict[str, str]:
        """As members of the API's filter, for the form that acts on all of them. `within` becomes a
        time, so that what is acted on is what is seen."""
        since = self.begin(view.now)
        given = {
            "status": self.status and self.status.value,
            "endpoint_id": self.endpoint_id,
            "subscription_id": self.subscription_id,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "tenant_id": self.tenant_id or view.tenant_id,
            "since": since and rfc3339(since),
            "until": self.until and rfc3339(self.until),
        }
        return {name: value for name, value in given.items() if value}

    def begin(self, now: datetime) -> datetime | None:
        """The time from which on it is, by `since` and by `within`."""
        if self.within is None:
            return self.since
        begin = now - SPANS[self.within][0]
        return begin if self.since is None else max(begin, self.since)

    @property
    def any(self) -> bool:
        """Whether it is narrowed at all."""
        return any(getattr(self, name) is not None for name in self.__slots__)


async def _chosen(
    status: DeliveryStatus | None = None,
    endpoint_id: EndpointId | None = None,
    subscription_id: SubscriptionId | None = None,
    event_id: EventId | None = None,
    event_type: Annotated[str | None, Query(max_length=200)] = None,
    tenant_id: TenantId | None = None,
    within: Within | None = None,
    since: TimeInput | None = None,
    until: TimeInput | None = None,
) -> Chosen:
    return Chosen(
        status=status,
        endpoint_id=endpoint_id,
        subscription_id=subscription_id,
        event_id=event_id,
        event_type=event_type,
        tenant_id=tenant_id,
        within=within,
        since=since,
        until=until,
    )


ChosenQuery = Annotated[Chosen, Depends(_chosen)]


@routes.get("/deliveries")
async def deliveries_page(
    view: PageView, page: PageQuery, context: AppContext, principal: Reader, chosen: ChosenQuery
) -> Response:
    """Deliveries, the newest first."""
    endpoints = await _endpoints(view, context, principal)
    return view.render(
        "deliveries.html",
        listing=await _list(page, context, principal, view=view, chosen=chosen),
        chosen=chosen,
        members=chosen.members(view),
        endpoints=endpoints,
        names=_names(endpoints),
        statuses=[(status.value, status.value) for status in DeliveryStatus],
        spans=SPANS,
        is_first=page.after is None,
    )


@routes.get("/live/deliveries")
async def deliveries_live(
    view: PageView, page: PageQuery, context: AppContext, principal: Reader, chosen: ChosenQuery
) -> Response:
    """The list as it grows and changes."""
    names = _names(await _endpoints(view, context, principal))

    async def render() -> str:
        view.now = context.clock()
        listing = await _list(page, context, principal, view=view, chosen=chosen)
        return view.text("delivery_rows.html", listing=listing, names=names)

    return live.stream(view, render, every=_EVERY_SECONDS)


async def _endpoints(view: View, context: Context, principal: Principal) -> list[EndpointView]:
    """Those to choose from: one, where the session is about one."""
    listing = await list_endpoints(_NAMED, context, principal, tenant_id=view.tenant_id)
    return [each for each in listing.data if view.endpoint_id in (None, each.id)]


def _names(endpoints: list[EndpointView]) -> dict[str, str]:
    return {each.id: each.description or each.url or each.id for each in endpoints}


async def _list(
    page: Page, context: Context, principal: Principal, *, view: View, chosen: Chosen
) -> Listing[DeliveryView]:
    return await list_deliveries(
        page,
        context,
        principal,
        status=chosen.status,
        endpoint_id=chosen.endpoint_id,
        subscription_id=chosen.subscription_id,
        event_id=chosen.event_id,
        event_type=chosen.event_type,
        tenant_id=chosen.tenant_id or view.tenant_id,
        since=chosen.begin(view.now),
        until=chosen.until,
    )
