"""One endpoint: its figures, newest deliveries, subscriptions and settings."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Response

from api.access.authentication import Principal, Reader
from api.dashboard.pages import endpoint_charts, tenant_names
from api.dashboard.pages.endpoint_charts import Window, WindowQuery
from api.dashboard.site import DASHBOARD
from api.forms.unmatched import explain_unmatched
from api.http.fields import EndpointPath
from api.http.pagination import Page
from api.routes.deliveries import list_deliveries
from api.routes.endpoint_checks import StatsView
from api.routes.endpoint_control import get_endpoint_health
from api.routes.endpoint_tests import list_tests
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import PreviewView, list_subscriptions
from api.site import live
from api.site.endpoint_fields import settings_form
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.sample_editor import sample_editor
from api.site.settings_form import SettingsForm
from hookfast.deliveries.retry_plan import parse_plan
from hookfast.events.event_type import MAX_LENGTH
from hookfast.resources.setting import Dashboard, settings_of
from hookfast.resources.subscription import SubscriptionSettings
from hookfast.storage.deliveries import sent_tests

routes = PageRouter(DASHBOARD)


SUBSCRIPTION: Final = SettingsForm(settings_of(SubscriptionSettings, Dashboard))

_RECENT = Page(limit=10, after=None)
_ALL = Page(limit=200, after=None)
_EVERY_SECONDS = 3.0


@routes.get("/endpoints/{endpoint_id}")
async def endpoint_page(
    endpoint_id: EndpointPath,
    view: PageView,
    principal: Reader,
    window: WindowQuery = endpoint_charts.DEFAULT,
    test_type: Annotated[str | None, Query(max_length=MAX_LENGTH)] = None,
) -> Response:
    """Show an endpoint, with its attempts in the window, and the sample of an event type to test
    it with."""
    return await render_endpoint(
        endpoint_id, view=view, principal=principal, window=window, test_type=test_type
    )


# an unknown endpoint answers 404 here: later, the stream would only end
@routes.get("/live/endpoints/{endpoint_id}", dependencies=[Depends(get_endpoint)])
async def endpoint_live(
    endpoint_id: EndpointPath,
    view: PageView,
    principal: Reader,
    window: WindowQuery = endpoint_charts.DEFAULT,
) -> Response:
    """Stream the figures and the newest deliveries of an endpoint."""
    read = partial(_figures, endpoint_id, view, principal, window)
    return live.stream(view, "endpoint_figures.html", read, every=_EVERY_SECONDS)


async def render_endpoint(
    endpoint_id: str,
    *,
    view: View,
    principal: Principal,
    window: Window = endpoint_charts.DEFAULT,
    test_type: str | None = None,
    test_data: str | None = None,
    preview: PreviewView | None = None,
    status: int = 200,
) -> Response:
    """Render the endpoint's page, with the data that was typed for a test, the preview of a
    subscription, or the errors of one of its forms."""
    figures = await _figures(endpoint_id, view, principal, window)
    await tenant_names.load(view, figures["endpoint"].tenant_id)
    subscribed = await list_subscriptions(_ALL, view.context, principal, endpoint_id=endpoint_id)
    async with view.context.database.read() as connection:
        unmatched = await explain_unmatched(
            view.context,
            connection,
            [pattern for each in subscribed.data for pattern in each.events],
            tenant_id=figures["endpoint"].tenant_id,
        )
    return view.render(
        "endpoint.html",
        status=status,
        **figures,
        subscriptions=subscribed.data,
        subscription_form=SUBSCRIPTION,
        fields=SUBSCRIPTION.submitted_fields(view.form)
        if "events" in view.form
        else SUBSCRIPTION.new_fields(),
        unmatched=unmatched,
        groups=settings_form(Dashboard, figures["endpoint"].mode).groups,
        plan=parse_plan(figures["endpoint"].retry_plan),
        policy=view.context.settings.circuit_policy.with_overrides(figures["endpoint"].circuit),
        editor=await sample_editor(
            view, principal, name=test_type, data=test_data, subscriptions=subscribed.data
        ),
        tests=(await list_tests(_RECENT, view.context, principal, endpoint_id=endpoint_id)).data,
        tests_kept=sent_tests.KEPT,
        preview=preview,
    )


async def _figures(
    endpoint_id: str, view: View, principal: Principal, window: Window
) -> dict[str, Any]:
    context = view.context
    recent = await list_deliveries(_RECENT, context, principal, endpoint_id=endpoint_id)
    endpoint = await get_endpoint(endpoint_id, context, principal)
    charts = await endpoint_charts.read(view, endpoint_id, window, created_at=endpoint.created_at)
    since, until = charts.steps[0].start, charts.steps[-1].end
    return {
        "endpoint": endpoint,
        "health": await get_endpoint_health(endpoint_id, context, principal),
        "stats": StatsView.of(charts.whole, endpoint_id, since=since, until=until),
        "charts": charts,
        "windows": endpoint_charts.NAMES,
        "recent": recent.data,
    }
