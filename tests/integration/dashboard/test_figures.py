"""Every figure of the overview, the deliveries, an endpoint and the dead letters equals a count of
rows, in every window and in every zone, of one tenant and of all."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import unescape
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import delete, insert, select, update

from api.context.context import Context
from api.site.formatting import millis, number, percent, seconds
from hookfast.deliveries.figures import bucket_of, percentile
from hookfast.storage.counting import folding
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.figures import delivery_steps
from hookfast.storage.tables import Attempt, Delivery, Endpoint
from tests.integration.dashboard.resources import EVENT_TYPE, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of
from tests.support.figures import count_rows
from tests.support.rows import Row, attempt_row, delivery_row

pytestmark = pytest.mark.anyio

STEP = re.compile(r'<a class="step" href="([^"]+)"[^>]*><title>([^<]+)</title>')
COUNTED = re.compile(r"([\d,]+) (delivered|failed|in progress|cancelled)")
ANSWERED = re.compile(r"([\d,]+) (success|4xx|5xx|timeout|other failure)")
TIMES = re.compile(r"half (?:answered )?within (.+), 95 % within (.+)$")
WINDOWS = (
    *(("UTC", window) for window in ("1h", "24h", "7d", "30d")),
    *product(("America/New_York", "Asia/Kolkata"), ("24h", "7d")),
)
STATUSES = {
    "delivered": 12,
    "dead": 3,
    "gone": 1,
    "cancelled": 1,
    "pending": 2,
    "retrying": 2,
    "held": 3,
    "paused": 1,
}
ENDED = ("delivered", "dead", "gone", "cancelled")
FAILED = ("dead", "gone")
ANSWERS = {200: "success", 503: "5xx", None: "timeout"}
AGES = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
OTHER_TYPE = "order.refund.made"


@dataclass(frozen=True, slots=True)
class Shop:
    """A tenant with two endpoints, whose deliveries were created in the last 25 days."""

    tenant_id: str
    endpoints: list[str]
    deliveries: list[Row] = field(default_factory=list)


async def open_shop(client: httpx2.AsyncClient, context: Context) -> Shop:
    tenant_id = await new_tenant(client)
    shop = Shop(tenant_id, [await new_endpoint(client, tenant_id) for _ in range(2)])
    chosen, now = random.Random(7), context.clock()
    attempts = []
    for _ in range(300):
        most = chosen.choice([timedelta(hours=1), timedelta(days=1), timedelta(days=25)])
        made = now - chosen.random() * most
        [status] = chosen.choices(list(STATUSES), list(STATUSES.values()))
        took = timedelta(seconds=chosen.expovariate(1 / 20))
        due = made + timedelta(minutes=10) if chosen.random() < 0.1 else None
        row = delivery_row(
            made,
            tenant_id=tenant_id,
            endpoint_id=chosen.choice(shop.endpoints),
            event_type=chosen.choice((EVENT_TYPE, OTHER_TYPE)),
            status=status,
            reason="retries_exhausted" if status == "dead" else None,
            place="queued" if status == "pending" and chosen.random() < 0.5 else None,
            round=int(chosen.random() < 0.1),
            deliver_at=due,
            finished_at=(due or made) + took if status in ENDED else None,
            waiting_since=made,
            last_result="success" if status == "delivered" else "status",
            last_status_code=200 if status == "delivered" else 503,
            last_attempt_at=made,
            last_duration_ms=12.5,
        )
        shop.deliveries.append(row)
        for place in range(chosen.randrange(4)):
            code = chosen.choice([200, 503, None])
            attempts.append(
                attempt_row(
                    made + place * timedelta(minutes=20),
                    *(row["id"], row["endpoint_id"]),
                    trigger="retry" if place else "first",
                    duration_ms=chosen.expovariate(1 / 200),
                    status_code=code,
                    result={200: "success", 503: "status", None: "timeout"}[code],
                )
            )
    endpoint = Endpoint.__table__
    opened = update(endpoint).values(created_at=now - timedelta(days=25))
    async with context.database.write() as connection:
        await connection.execute(opened.where(endpoint.c.id.in_(shop.endpoints)))
        await connection.execute(insert(Delivery.__table__), shop.deliveries)
        await connection.execute(insert(Attempt.__table__), attempts)
    await count_rows(context.database)
    return shop


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a tenant, or of all."""

    deliveries: Sequence[Any]
    attempts: Sequence[Any]

    @classmethod
    async def read(cls, context: Context, tenant_id: str | None) -> Rows:
        async with context.database.read() as connection:
            deliveries = (await connection.execute(select(Delivery.__table__))).all()
            attempts = (await connection.execute(select(Attempt.__table__))).all()
        own = [row for row in deliveries if tenant_id in (None, row.tenant_id)]
        ids = {row.id for row in own}
        return cls(own, [row for row in attempts if row.delivery_id in ids])

    def by_result(self, since: datetime, until: datetime, **chosen: object) -> Counter[str]:
        """Return the deliveries created in this time, as the charts name their results."""
        return Counter(
            result_of(row.status)
            for row in self.deliveries
            if since <= row.created_at < until
            and all(getattr(row, name) == value for name, value in chosen.items())
        )

    def of_endpoint(self, endpoint_id: str) -> Rows:
        """Return those of an endpoint."""
        return Rows(
            [row for row in self.deliveries if row.endpoint_id == endpoint_id],
            [row for row in self.attempts if row.endpoint_id == endpoint_id],
        )

    def answers(self, since: datetime, until: datetime) -> Counter[str]:
        """Return the attempts made in this time, as the charts name their answers."""
        return Counter(
            ANSWERS[row.status_code] for row in self.attempts if since <= row.started_at < until
        )

    def answered_in(self, since: datetime, until: datetime, share: int) -> str:
        """Return a percentile of the response times of this time, as pages show it."""
        buckets = Counter(
            bucket_of(row.duration_ms)
            for row in self.attempts
            if row.status_code is not None and since <= row.started_at < until
        )
        return millis(percentile(buckets, share))

    def ages(self, now: datetime) -> list[int]:
        """Return the dead letters of less than an hour, a day, and a week, and the older ones."""
        ages = [now - row.finished_at for row in self.deliveries if row.status in FAILED]
        counted = Counter(sum(age >= limit for limit in AGES) for age in ages)
        return [counted[place] for place in range(len(AGES) + 1)]

    def took(self, since: datetime, until: datetime, share: int) -> str:
        """Return a percentile of the times to delivery of those that were delivered in this time,
        as pages show it."""
        buckets = Counter(
            bucket_of((row.finished_at - (row.deliver_at or row.created_at)) / MILLISECOND)
            for row in self.deliveries
            if row.status == "delivered" and not row.round and since <= row.finished_at < until
        )
        found = percentile(buckets, share)
        return seconds(None if found is None else found / 1_000)


MILLISECOND = timedelta(milliseconds=1)


def result_of(status: str) -> str:
    if status in FAILED:
        return "failed"
    return status if status in ENDED else "in progress"


def bars(html: str) -> Iterator[tuple[datetime, datetime, str]]:
    """Yield the time and the tooltip of each bar, and of each step of a line."""
    for address, label in STEP.findall(html):
        query = parse_qs(urlsplit(unescape(address)).query)
        since, until = (datetime.fromisoformat(query[name][0]) for name in ("since", "until"))
        yield since, until, unescape(label)


def said(label: str, words: re.Pattern[str] = COUNTED) -> Counter[str]:
    return Counter({name: int(count.replace(",", "")) for count, name in words.findall(label)})


async def check_overview(visitor: Visitor, rows: Rows, window: str) -> None:
    page = (await visitor.get(f"/dashboard?window={window}")).text
    text = text_of(page)
    volume = list(bars(page))
    # a step of the line has no link, and no tooltip if nothing was delivered in it
    titles = map(unescape, re.findall(r"<title>([^<]+)</title>", page))
    took = {
        each.partition(": ")[0]: times.groups() for each in titles if (times := TIMES.search(each))
    }
    assert took
    for since, until, label in volume:
        assert said(label) == rows.by_result(since, until), label
        shown = took.pop(label.partition(": ")[0], ("–", "–"))
        assert shown == (rows.took(since, until, 50), rows.took(since, until, 95)), label
    assert not took
    first, last = volume[0][0], volume[-1][1]
    assert [step[0] for step in volume[1:]] == [step[1] for step in volume[:-1]]
    whole = rows.by_result(first, last)
    assert whole.total() > 50
    assert f"Delivered {number(whole['delivered'])} " in text
    assert f"Failed {number(whole['failed'])} ended without success" in text
    ended = whole["delivered"] + whole["failed"]
    assert f"Deliveries succeeded {percent(whole['delivered'] / ended)} of those" in text
    made = [row.result for row in rows.attempts if first <= row.started_at < last]
    share = percent(made.count("success") / len(made))
    assert f"Attempts succeeded {share} of {number(len(made))} attempts" in text
    p50, p95, p99 = (rows.took(first, last, share) for share in (50, 95, 99))
    assert f"Time to delivery {p50} p95 {p95} · p99 {p99}" in text
    statuses = Counter(row.status for row in rows.deliveries)
    waiting = sum(statuses[name] for name in ("pending", "retrying", "held", "paused"))
    assert f"Waiting {number(waiting)} {number(statuses['pending'])} pending" in text
    assert f"{number(statuses['retrying'])} retrying {number(statuses['held'])} held" in text
    assert f"Held {number(statuses['held'])} first held" in text
    assert f"Dead letters {number(statuses['dead'] + statuses['gone'])} can be resent" in text
    # the table has the same figures: from, delivered, in progress, failed, cancelled
    table = page.partition('<details class="figures"')[2].partition("</details>")[0]
    cells = re.findall(r"<td[^>]*>([\d,]+)</td>", table)
    columns = [sum(int(cell.replace(",", "")) for cell in cells[place::4]) for place in range(4)]
    names = ("delivered", "in progress", "failed", "cancelled")
    assert columns == [whole[name] for name in names]


async def check_list(visitor: Visitor, rows: Rows, path: str, chosen: dict[str, Any]) -> None:
    page = (await visitor.get(path)).text
    text = text_of(page)
    volume = list(bars(page))
    for since, until, label in volume:
        assert said(label) == rows.by_result(since, until, **chosen), (path, label)
    whole = rows.by_result(volume[0][0], volume[-1][1], **chosen)
    assert whole.total() > 0
    many = "delivery" if whole.total() == 1 else "deliveries"
    assert f"{number(whole.total())} {many} created from" in text, path
    counts = {name: number(whole[name]) for name in ("delivered", "in progress", "failed")}
    assert " ".join(f"{name} {count}" for name, count in counts.items()) in text
    assert (f"cancelled {number(whole['cancelled'])}" in text) == (whole["cancelled"] > 0)


async def check_endpoint(visitor: Visitor, rows: Rows, endpoint_id: str, window: str) -> None:
    rows = rows.of_endpoint(endpoint_id)
    page = (await visitor.get(f"/dashboard/endpoints/{endpoint_id}?window={window}")).text
    text = text_of(page)
    steps = list(bars(page))
    results = [step for step in steps if not TIMES.search(step[2])]
    for since, until, label in results:
        assert said(label, ANSWERED) == rows.answers(since, until), label
    for since, until, label in steps:
        if times := TIMES.search(label):
            expected = [rows.answered_in(since, until, share) for share in (50, 95)]
            assert list(times.groups()) == expected, label
    first, last = results[0][0], results[-1][1]
    whole = rows.answers(first, last)
    assert whole.total() > 20
    legend = {name: number(whole[name]) for name in ("success", "4xx", "5xx", "timeout")}
    assert " ".join(f"{name} {count}" for name, count in legend.items()) in text
    created = rows.by_result(first, last)
    ended = created["delivered"] + created["failed"]
    rate = percent(created["delivered"] / ended)
    assert f"Success rate {rate} of {number(ended)} that ended in" in text
    p50, p95, p99 = (rows.answered_in(first, last, share) for share in (50, 95, 99))
    assert f"Response time {p50} p95 {p95} · p99 {p99}" in text
    statuses = Counter(row.status for row in rows.deliveries)
    assert f"Held {number(statuses['held'])} deliver" in text
    assert f"Dead letters {number(statuses['dead'] + statuses['gone'])} can be resent" in text
    table = page.partition('<details id="figures"')[2].partition("</details>")[0]
    cells = re.findall(r"<td[^>]*>([\d,]+)</td>", table)
    assert [sum(map(int, cells[place::6])) for place in range(6)] == [
        whole.total(),
        *(whole[name] for name in ("success", "4xx", "5xx", "timeout", "other failure")),
    ]


async def check_dead_letters(visitor: Visitor, rows: Rows, context: Context) -> None:
    before = rows.ages(context.clock())
    text = text_of((await visitor.get("/dashboard/dead-letters")).text)
    assert f"Dead letters {number(sum(before))} ended without success" in text
    names = ("Last hour", "1–24 hours ago", "1–7 days ago", "Over 7 days ago")
    written = [
        " ".join(f"{name} {number(count)}" for name, count in zip(names, ages, strict=True))
        for ages in (before, rows.ages(context.clock()))
    ]
    assert any(each in text for each in written)


@pytest.mark.both_databases
async def test_every_figure_equals_a_count_of_rows(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    shop = await open_shop(client, context)
    await open_shop(client, context)
    rows = await Rows.read(context, None)
    own = await Rows.read(context, shop.tenant_id)
    assert len(rows.deliveries) > len(own.deliveries)
    async with tenant_visitor(app, client, shop.tenant_id) as visitor:
        for zone, window in WINDOWS:
            visitor.client.cookies.set("hookfast-zone", zone)
            await check_overview(visitor, own, window)
            if window != "30d":
                await check_endpoint(visitor, own, shop.endpoints[0], window)
        await check_dead_letters(visitor, own, context)
        await check_overview(operator, rows, "30d")
        await folding.fold(context.database)
        await check_endpoint(operator, rows, shop.endpoints[1], "7d")
        await check_dead_letters(operator, rows, context)
        await check_overview(operator, rows, "24h")
        filters: list[dict[str, Any]] = [
            {},
            {"status": "delivered"},
            {"status": "dead"},
            {"endpoint_id": shop.endpoints[0]},
            {"endpoint_id": shop.endpoints[1], "status": "delivered"},
            {"event_type": OTHER_TYPE},
            {"event_type": OTHER_TYPE, "endpoint_id": shop.endpoints[0]},
        ]
        ranges = ("", "within=1h", "within=24h", "within=7d", span(context, days=26, until=3))
        for times, chosen in product(ranges, filters):
            query = "&".join([times, *(f"{name}={value}" for name, value in chosen.items())])
            await check_list(visitor, own, f"/dashboard/deliveries?{query}", chosen)
        for times in ranges:
            await check_list(operator, rows, f"/dashboard/deliveries?{times}", {})
        for times in ("within=24h", span(context, days=26, until=3)):
            path = f"/dashboard/deliveries?{times}&answer=503"
            await check_list(visitor, own, path, {"last_status_code": 503})


def span(context: Context, *, days: int, until: int) -> str:
    """Return the query of a time range between days ago, at no round times."""
    ends = [context.clock() - timedelta(days=ago, seconds=7) for ago in (days, until)]
    since, before = (each.isoformat().replace("+00:00", "Z") for each in ends)
    return f"since={since}&until={before}"


async def test_bar_leads_to_a_list_that_says_its_numbers(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    shop = await open_shop(client, context)
    own = await Rows.read(context, shop.tenant_id)
    followed = 0
    async with tenant_visitor(app, client, shop.tenant_id) as visitor:
        page = (await visitor.get("/dashboard?window=1h")).text
        for address, label in STEP.findall(page):
            if "delivered" in label and "only" not in label:
                path = unescape(address)
                text = text_of((await visitor.get(path)).text)
                query = parse_qs(urlsplit(path).query)
                since, until = (
                    datetime.fromisoformat(query[name][0]) for name in ("since", "until")
                )
                counts = own.by_result(since, until)
                assert said(unescape(label)) == counts, label
                assert until - since == timedelta(minutes=1)
                assert re.search(rf"\b{counts.total()} deliver(y|ies) created from", text), path
                assert f"delivered {counts['delivered']} in progress" in text, path
                followed += 1
    assert followed > 5


async def test_failed_part_of_a_bar_leads_to_as_many_dead_letters(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop(client, context)
    own = await Rows.read(context, shop.tenant_id)
    async with tenant_visitor(app, client, shop.tenant_id) as visitor:
        page = (await visitor.get("/dashboard?window=7d")).text
        found = re.findall(r'href="([^"]+/dead-letters\?[^"]+)"', page)
        paths = [unescape(each) for each in found]
        assert len(paths) > 5
        for path in paths:
            query = parse_qs(urlsplit(path).query)
            since, until = (datetime.fromisoformat(query[name][0]) for name in ("since", "until"))
            for more, chosen in (
                ("", {}),
                (f"&event_type={OTHER_TYPE}", {"event_type": OTHER_TYPE}),
                (f"&endpoint_id={shop.endpoints[0]}", {"endpoint_id": shop.endpoints[0]}),
                ("&answer=503", {"last_status_code": 503}),
            ):
                text = text_of((await visitor.get(path + more)).text)
                count = own.by_result(since, until, **chosen)["failed"]
                words = f"{count} dead letter{'' if count == 1 else 's'} match"
                assert words in text or (not count and "No dead letter matches" in text), text
        monkeypatch.setattr(dead_letters, "MOST", 2)
        text = text_of((await visitor.get("/dashboard/dead-letters?answer=503")).text)
        assert "More than 2 dead letters are in this time." in text
        assert "match the filter" not in text_of(
            (await visitor.get("/dashboard/dead-letters")).text
        )


async def test_deliveries_that_are_too_many_to_count_are_not_guessed(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await open_shop(client, context)
    monkeypatch.setattr(delivery_steps, "MOST", 25)
    path = f"/dashboard/deliveries?{span(context, days=26, until=3)}"
    async with tenant_visitor(app, client, shop.tenant_id) as visitor:
        page = (await visitor.get(f"{path}&answer=503")).text
        assert "More than 10,000 match." in text_of(page)
        assert "volume-heading" not in page
        page = (await visitor.get(f"{path}&answer=200")).text
        assert "More than 10,000 deliveries are in this time." in text_of(page)
        assert "volume-heading" not in page
        # of these, only the rows of the first and the last step are read
        assert "volume-heading" in (await visitor.get(path)).text


async def test_chart_counts_deliveries_that_retention_has_deleted_and_says_so(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant_id = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant_id)
    now = context.clock()
    rows = [
        delivery_row(
            now - timedelta(days=age), tenant_id=tenant_id, endpoint_id=endpoint_id, status=status
        )
        for age, status in ((35, "delivered"), (35, "held"), (25, "delivered"))
    ]
    deliveries = Delivery.__table__
    async with context.database.write() as connection:
        await connection.execute(insert(deliveries), rows)
    await count_rows(context.database)
    async with context.database.write() as connection:
        await connection.execute(delete(deliveries).where(deliveries.c.id == rows[0]["id"]))
    old, young = (
        f"since={now - timedelta(days=days):%Y-%m-%dT00:00:00Z}&until={now:%Y-%m-%dT00:00:00Z}"
        for days in (38, 28)
    )
    said = "the list has those that retention has not deleted"
    async with tenant_visitor(app, client, tenant_id) as visitor:
        text = text_of((await visitor.get(f"/dashboard/deliveries?{old}")).text)
        assert "3 deliveries created from" in text
        assert "delivered 2 in progress 1 failed 0" in text
        assert said in text
        text = text_of((await visitor.get(f"/dashboard/deliveries?{young}")).text)
        assert "1 delivery created from" in text
        assert said not in text
