"""One tenant: its endpoints by health, what waits, its last day, its newest failures, and where to
find everything else of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Response

from api.access.authentication import Reader
from api.dashboard.pages.volume_chart import Step, merged, steps_between, volume_chart
from api.dashboard.site import DASHBOARD
from api.http.fields import TenantPath
from api.routes.tenant_usage import get_tenant_usage
from api.routes.tenants import TenantView, get_tenant
from api.site import live
from api.site.attempt_chart import AttemptStep, Legend, attempt_chart, classified, legend_of
from api.site.charts import Chart
from api.site.navigation import SECTIONS, dead_letters_between, deliveries_between
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_steps import WINDOWS, step_name
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.figures import endpoint_counts, newest_failures, overview, waiting
from hookfast.storage.figures.endpoint_counts import EndpointCounts
from hookfast.storage.figures.waiting import Waiting
from hookfast.strict_json.text import to_text

routes = PageRouter(DASHBOARD)

StoredTenant = Annotated[TenantView, Depends(get_tenant)]

_DAY: Final = WINDOWS["24h"]
_FAILURES_SHOWN = 8
_OUTAGES_READ = 8
_EVERY_SECONDS = 5.0
_LISTS: Final = (
    *("endpoints", "events", "deliveries", "dead-letters", "jobs", "sources", "inbox"),
    *("api-keys", "audit"),
)
"""The menu lines whose lists have a filter by tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFigures:
    """The figures of the page. `steps` are those of the last day, `whole` is all of them as one,
    and `attempts` has their attempts by result."""

    steps: Sequence[Step]
    whole: Step
    volume: Chart
    attempts: Sequence[AttemptStep]
    attempts_chart: Chart
    legend: Sequence[Legend]
    waiting: Waiting
    endpoints: EndpointCounts

    @property
    def words(self) -> str:
        """The time that the charts show."""
        return _DAY.words


@routes.get("/tenants/{tenant_id}")
async def tenant_page(tenant: StoredTenant, view: PageView, principal: Reader) -> Response:
    """Show a tenant: to operators, and to its own keys."""
    return view.render(
        "tenant.html",
        tenant=tenant,
        metadata={name: _text(value) for name, value in tenant.metadata.items()},
        usage=await get_tenant_usage(tenant.id, view.context, principal),
        lists=_lists(view, tenant.id),
        **await _figures(tenant.id, view),
    )


# an unknown tenant answers 404 here: later, the stream would only end
@routes.get("/live/tenants/{tenant_id}", dependencies=[Depends(get_tenant)])
async def tenant_live(tenant_id: TenantPath, view: PageView, _: Reader) -> Response:
    """Stream the figures of a tenant."""
    read = partial(_figures, tenant_id, view)
    return live.stream(view, "tenant_figures.html", read, every=_EVERY_SECONDS)


def _lists(view: View, tenant_id: str) -> list[tuple[str, str]]:
    """Return the titles and addresses of the lists that this visitor may see."""
    return [
        (each.title, f"{each.path}?tenant_id={tenant_id}")
        for each in SECTIONS
        if each.name in _LISTS and (view.can_write or not each.writers_only)
    ]


async def _figures(tenant_id: str, view: View) -> dict[str, Any]:
    scope, edges = Scope(tenant_id), _DAY.edges(view.now, view.zone)
    async with view.context.database.read() as connection:
        steps = steps_between(edges, await reading.steps(connection, scope, edges))
        counted = await waiting.read(connection, scope)
        endpoints = await endpoint_counts.read(connection, tenant_id=tenant_id)
        outages = await overview.attention_items(
            connection, tenant_id=tenant_id, limit=_OUTAGES_READ
        )
        failures = await newest_failures.read(
            connection,
            tenant_id=tenant_id,
            since=edges[0],
            outages=[each.endpoint_id for each in outages],
            limit=_FAILURES_SHOWN,
        )
    labels = [_DAY.labels.of(step.start, step.end, view.zone) for step in steps]
    times, whole = [(step.start, step.end) for step in steps], merged(steps)
    attempts = [
        AttemptStep(start=step.start, counts=classified(step.numbers.by_answer())) for step in steps
    ]
    figures = TenantFigures(
        steps=steps,
        whole=whole,
        volume=volume_chart(
            steps,
            zone=view.zone,
            labels=labels,
            links=[deliveries_between(*each, tenant_id=tenant_id) for each in times],
            part_links={
                "bad": [dead_letters_between(*each, tenant_id=tenant_id) for each in times]
            },
        ),
        attempts=attempts,
        attempts_chart=attempt_chart(
            attempts,
            moments=[step_name(*each, view.zone) for each in times],
            labels=labels,
        ),
        legend=legend_of(classified(whole.numbers.by_answer())),
        waiting=counted,
        endpoints=endpoints,
    )
    return {"figures": figures, "failures": failures, "of_tenant": f"tenant_id={tenant_id}"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_text(value, layout="spaced")
