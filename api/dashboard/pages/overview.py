"""The first page: delivery counts and times, what waits, and the endpoints that need attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Query, Response

from api.access.authentication import Reader
from api.context.context import Context
from api.dashboard.pages import first_steps, tenant_names
from api.dashboard.pages.overview_summary import Summary, summarize
from api.dashboard.pages.volume_chart import Step, merged, steps_between, volume_chart
from api.dashboard.site import DASHBOARD
from api.routes.tenant_usage import get_tenant_usage
from api.site import charts, live
from api.site.charts import Chart
from api.site.formatting import rate, seconds
from api.site.navigation import dead_letters_between, deliveries_between
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.time_steps import WINDOWS, Window, step_name
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.figures import (
    endpoint_counts,
    newest_failures,
    overview,
    tenant_health,
    waiting,
    workers,
)
from hookfast.storage.figures.endpoint_counts import EndpointCounts
from hookfast.storage.figures.overview import AttentionItem
from hookfast.storage.figures.waiting import Waiting
from hookfast.storage.figures.workers import Alive

routes = PageRouter(DASHBOARD)

WindowQuery = Annotated[Window, Query(alias="window")]

_ATTENTION_SHOWN = 8
_FAILURES_SHOWN = 8
_TENANTS_SHOWN = 8
_EVERY_SECONDS = 5.0
_MOST_ROWS = 48
_MINUTES_OF_ROW = 5
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of the page."""

    window: Window
    words: str
    oldest: datetime | None
    """The minute of the oldest delivery; None if there is none."""
    now: datetime
    steps: Sequence[Step]
    whole: Step
    """All steps as one."""
    volume: Chart
    latency: Chart
    waiting: Waiting
    held_since: datetime | None
    endpoints: EndpointCounts
    summary: Summary
    attention: Sequence[AttentionItem]
    alive: Alive

    @property
    def rows(self) -> list[Step]:
        """The rows of the table, the newest first: five minutes of an hour are one row."""
        size = _MINUTES_OF_ROW if len(self.steps) > _MOST_ROWS else 1
        groups = [self.steps[at : at + size] for at in range(0, len(self.steps), size)]
        return [merged(group) for group in reversed(groups)]

    @property
    def has_worker(self) -> bool:
        return self.alive.workers > 0

    @property
    def rate(self) -> str:
        """How often a delivery was delivered in the charted time, in words: since the oldest
        delivery, if it was created in this time."""
        whole = self.whole
        began = max(whole.start, self.oldest or whole.start)
        words = rate(whole.delivered, max(self.now - began, _MINUTE))
        return f"{words} since the first" if self.is_new and whole.delivered else words

    @property
    def is_new(self) -> bool:
        """Whether the oldest delivery was created in the charted time."""
        return self.oldest is not None and self.oldest > self.whole.start


@routes.get("")
async def overview_page(view: PageView, principal: Reader, window: WindowQuery = "1h") -> Response:
    """Show the overview; of one tenant, with its quotas."""
    usage = None
    if view.tenant_id is not None:
        usage = await get_tenant_usage(view.tenant_id, view.context, principal)
    figures = await _read(view.context, view, window)
    return view.render("overview.html", usage=usage, **figures)


@routes.get("/live/overview")
async def overview_live(view: PageView, _: Reader, window: WindowQuery = "1h") -> Response:
    """Stream the figures of the overview."""
    read = partial(_read, view.context, view, window)
    return live.stream(view, "overview_figures.html", read, every=_EVERY_SECONDS)


async def _read(context: Context, view: View, window: Window) -> dict[str, Any]:
    tenant_id = view.tenant_id
    scope = Scope(tenant_id)
    async with context.database.read() as connection:
        oldest = await reading.oldest(connection, scope)
        span = WINDOWS[window].begun_at(oldest, view.now)
        edges = span.edges(view.now, view.zone)
        numbers = await reading.steps(connection, scope, edges)
        counted = await waiting.read(connection, scope)
        held_since = await overview.oldest_held(connection, tenant_id=tenant_id)
        endpoints = await endpoint_counts.read(connection, tenant_id=tenant_id)
        attention = await overview.attention_items(
            connection, tenant_id=tenant_id, limit=_ATTENTION_SHOWN
        )
        failures = await newest_failures.read(
            connection,
            tenant_id=tenant_id,
            since=WINDOWS[window].edges(view.now, view.zone)[0],
            outages=[each.endpoint_id for each in attention],
            limit=_FAILURES_SHOWN,
        )
        tenants = [] if tenant_id else await tenant_health.read(connection, limit=_TENANTS_SHOWN)
        alive = await workers.count_alive(connection, now=view.now)
    await tenant_names.load_owners(view, [*attention, *failures])
    steps = steps_between(edges, numbers)
    zone = span.zone_at(view.now, view.zone)
    labels = [span.labels.of(step.start, step.end, zone) for step in steps]
    figures = Overview(
        window=window,
        words=span.words,
        oldest=oldest,
        now=view.now,
        steps=steps,
        whole=merged(steps),
        volume=volume_chart(
            steps,
            zone=zone,
            labels=labels,
            links=[deliveries_between(step.start, step.end) for step in steps],
            part_links={"bad": [dead_letters_between(step.start, step.end) for step in steps]},
        ),
        latency=_latency(steps, labels, zone),
        waiting=counted,
        held_since=held_since,
        endpoints=endpoints,
        summary=summarize(
            endpoints,
            counted.by_status,
            held_since=held_since,
            has_worker=alive.workers > 0,
            now=view.now,
        ),
        attention=attention,
        alive=alive,
    )
    return {
        "overview": figures,
        "failures": failures,
        "tenants": tenants,
        "first_steps": await first_steps.read(view, endpoints=endpoints.total)
        if oldest is None
        else None,
    }


def _latency(steps: Sequence[Step], labels: Sequence[str], zone: ZoneInfo) -> Chart:
    """Draw the times to delivery of those delivered in each step. It opens no lists: they have what
    was created in a time."""
    medians = [step.seconds(50) for step in steps]
    slow = [step.seconds(95) for step in steps]
    names = [step_name(step.start, step.end, zone) for step in steps]
    return charts.lines(
        [("p95", slow), ("p50", medians)],
        tooltips=[
            f"{name}: half within {seconds(p50)}, 95 % within {seconds(p95)}"
            for name, p50, p95 in zip(names, medians, slow, strict=True)
        ],
        labels=labels,
        unit=_on_scale,
        top_of=charts.seconds_ceiling,
    )


def _on_scale(value: float) -> str:
    """Format a number of seconds for the scale of a chart."""
    if value == 0:
        return "0"
    return f"{value * 1_000:.3g} ms" if value < 1 else seconds(value)
