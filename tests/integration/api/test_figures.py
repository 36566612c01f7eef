"""`GET /v1/figures`: deliveries and attempts over time, for those who may see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from api.access.authentication import Principal
from api.context.context import Context
from api.routes import figures as routes
from hookfast.clock import rfc3339, utc_now
from hookfast.deliveries.figures import Owner, State, Tally, minute_of
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.errors import NotFound
from hookfast.storage.counting import entries, folding
from tests.support.api_client import Json, KeyClient, Make, assert_problem
from tests.support.emitted import TYPE

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]

OTHER_TYPE = "order.refund.made"
HOUR = timedelta(hours=1)


@pytest.fixture
def hour() -> datetime:
    """When the hour before this one began."""
    return utc_now().replace(minute=0, second=0, microsecond=0) - HOUR


async def _record(context: Context, tally: Tally) -> None:
    async with context.database.write() as connection:
        await entries.write(connection, tally.numbers())


def _delivered(tally: Tally, owner: Owner, at: datetime, *milliseconds: float) -> None:
    """Count deliveries that were created, and delivered at once, at this time."""
    for duration in milliseconds:
        ended = State(DeliveryStatus.DELIVERED, None, at)
        tally.delivery(owner, minute_of(at), None, ended)
        tally.ended(owner, ended, took=timedelta(milliseconds=2 * duration))
        tally.attempt(owner, at, Result.SUCCESS, 200, duration, first=True)


def _failed(tally: Tally, owner: Owner, at: datetime, status: DeliveryStatus, reason: str) -> None:
    """Count a delivery that was created at this time, and ended after a 503 and a timeout."""
    ended = State(status, reason, at)
    tally.delivery(owner, minute_of(at), None, ended)
    tally.ended(owner, ended, took=None)
    tally.attempt(owner, at, Result.STATUS, 503, 40, first=True)
    tally.attempt(owner, at, Result.TIMEOUT, None, 5_000, first=False)


async def _owner(make_endpoint: Make, tenant_id: str, event_type: str = TYPE) -> Owner:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    return Owner(tenant_id, endpoint["id"], event_type)


@pytest.fixture
async def owner(make_tenant: Make, make_endpoint: Make) -> Owner:
    """An endpoint of a new tenant."""
    return await _owner(make_endpoint, (await make_tenant())["id"])


async def _figures(client: httpx2.AsyncClient, since: datetime, **query: Any) -> Json:
    answer = await client.get("/figures", params={"since": rfc3339(since)} | query)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def _four_deliveries(context: Context, owner: Owner, hour: datetime) -> None:
    """Count two delivered in the first ten minutes, and a dead and a waiting one in the next."""
    tally = Tally()
    _delivered(tally, owner, hour + timedelta(minutes=3), 100, 100)
    _failed(tally, owner, hour + timedelta(minutes=12), DeliveryStatus.DEAD, "retries_exhausted")
    waiting = State(DeliveryStatus.RETRYING)
    tally.delivery(owner._replace(event_type=OTHER_TYPE), minute_of(hour) + 19, None, waiting)
    await _record(context, tally)


NOTHING = {
    **dict.fromkeys(("accepted", "attempts", "succeeded", "delivered", "dead"), 0),
    **dict.fromkeys(("gone", "cancelled"), 0),
}
TIMES = (
    *("p50_ms", "p95_ms", "p99_ms"),
    *("delivery_p50_ms", "delivery_p95_ms", "delivery_p99_ms"),
)
NO_TIMES = dict.fromkeys(TIMES)
NO_GROUPS = dict.fromkeys(("by_result", "by_status", "by_reason", "by_type"))


@pytest.mark.parametrize("folded", [False, True])
async def test_every_step_has_its_counts_and_times(
    client: httpx2.AsyncClient, context: Context, owner: Owner, hour: datetime, folded: bool
) -> None:
    await _four_deliveries(context, owner, hour)
    if folded:
        assert await folding.fold(context.database)
    until = rfc3339(hour + timedelta(minutes=21))
    found = await _figures(client, hour, until=until, step="10m")
    assert found["since"] == rfc3339(hour)
    assert found["until"] == rfc3339(hour + timedelta(minutes=30))
    assert found["step_seconds"] == 600
    first, second, third = found["data"]
    times = {name: first.pop(name) for name in TIMES}
    assert all(abs(times[f"p{share}_ms"] - 100) <= 12 for share in (50, 95, 99))
    assert all(abs(times[f"delivery_p{share}_ms"] - 200) <= 24 for share in (50, 95, 99))
    counts = {"accepted": 2, "attempts": 2, "succeeded": 2, "delivered": 2}
    assert first == NOTHING | NO_GROUPS | counts | {"at": rfc3339(hour)}
    assert second["at"] == rfc3339(hour + timedelta(minutes=10))
    counts = {"accepted": 2, "attempts": 2, "dead": 1}
    assert {name: second[name] for name in NOTHING} == NOTHING | counts
    assert second["p50_ms"] == pytest.approx(40, rel=0.12)  # the timeout got no response
    assert second["delivery_p50_ms"] is None
    at = {"at": rfc3339(hour + timedelta(minutes=20))}
    assert third == NOTHING | NO_TIMES | NO_GROUPS | at
    counts = {"accepted": 4, "attempts": 4, "succeeded": 2, "delivered": 2, "dead": 1}
    assert found["total"] == NOTHING | NO_GROUPS | counts
    # two of the three responses took 100 ms
    assert found["p50_ms"] == found["p99_ms"] == pytest.approx(100, rel=0.12)


async def test_counts_are_grouped_by_result_status_or_type(
    client: httpx2.AsyncClient, context: Context, owner: Owner, hour: datetime
) -> None:
    await _four_deliveries(context, owner, hour)
    window = {"since": hour, "until": rfc3339(hour + timedelta(minutes=20)), "step": "10m"}
    found = await _figures(client, **window, by="result")
    assert found["total"]["by_result"] == {"5xx": 1, "success": 2, "timeout": 1}
    assert [step["by_result"] for step in found["data"]] == [
        {"5xx": 0, "success": 2, "timeout": 0},
        {"5xx": 1, "success": 0, "timeout": 1},
    ]
    found = await _figures(client, **window, by="status")
    statuses = dict.fromkeys(map(str, DeliveryStatus), 0)
    assert found["total"]["by_status"] == statuses | {"delivered": 2, "dead": 1, "retrying": 1}
    assert found["data"][1]["by_status"] == statuses | {"dead": 1, "retrying": 1}
    assert [step["by_reason"] for step in found["data"]] == [
        {"retries_exhausted": 0},
        {"retries_exhausted": 1},
    ]
    found = await _figures(client, **window | {"step": "1h"}, by="type")
    [step] = found["data"]
    counts = {"accepted": 3, "attempts": 4, "succeeded": 2, "delivered": 2, "dead": 1}
    groups = {TYPE: NOTHING | counts, OTHER_TYPE: NOTHING | {"accepted": 1}}
    assert step["by_type"] == found["total"]["by_type"] == groups


async def test_the_most_frequent_event_types_are_listed(
    client: httpx2.AsyncClient,
    context: Context,
    owner: Owner,
    hour: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "MAX_TYPES", 2)
    tally = Tally()
    for number, name in enumerate(("rare", "frequent", "usual"), 1):
        kind = owner._replace(event_type=f"order.{name}.made")
        at = hour - number * HOUR
        _delivered(tally, kind, at, *[10] * {"rare": 1, "frequent": 3, "usual": 2}[name])
    await _record(context, tally)
    found = await _figures(client, hour - 3 * HOUR, step="1h", by="type")
    assert found["total"]["accepted"] == 6
    assert set(found["total"]["by_type"]) == {"order.frequent.made", "order.usual.made"}
    accepted = [step["by_type"]["order.frequent.made"]["accepted"] for step in found["data"]]
    assert accepted == [0, 3, 0, 0, 0]
    assert found["more_types"] == 1


async def test_the_default_is_the_last_24_hours(
    client: httpx2.AsyncClient, context: Context, owner: Owner, hour: datetime
) -> None:
    tally = Tally()
    _delivered(tally, owner, hour, 10)
    _delivered(tally, owner, hour - 30 * HOUR, 10)
    await _record(context, tally)
    found = (await client.get("/figures")).json()
    assert (len(found["data"]), found["step_seconds"]) == (25, 3_600)
    assert found["total"]["delivered"] == 1


async def test_tenants_and_endpoints_have_figures_of_their_own(
    client: httpx2.AsyncClient,
    context: Context,
    owner: Owner,
    hour: datetime,
    make_tenant: Make,
    make_endpoint: Make,
) -> None:
    second = await _owner(make_endpoint, owner.tenant_id)
    stranger = await _owner(make_endpoint, (await make_tenant())["id"])
    tally = Tally()
    for number, each in enumerate((owner, second, stranger), 1):
        _delivered(tally, each, hour, *[10] * number)
    await _record(context, tally)
    for by in (None, "result", "status", "type"):
        for query, expected in (
            ({}, 6),
            ({"tenant_id": owner.tenant_id}, 3),
            ({"endpoint_id": second.endpoint_id}, 2),
            ({"endpoint_id": second.endpoint_id, "tenant_id": owner.tenant_id}, 2),
            ({"tenant_id": stranger.tenant_id}, 3),
        ):
            found = await _figures(client, hour, **query, **({"by": by} if by else {}))
            assert found["total"]["delivered"] == expected, query
            if by == "type":
                assert found["total"]["by_type"][TYPE]["delivered"] == expected, query
    for query in (
        {"tenant_id": f"tnt_{'0' * 32}"},
        {"endpoint_id": f"ep_{'0' * 32}"},
        {"endpoint_id": second.endpoint_id, "tenant_id": stranger.tenant_id},
    ):
        assert_problem(await client.get("/figures", params=query), 404, code="not_found")


@pytest.mark.parametrize("scope", ["tenant", "tenant:read"])
async def test_a_tenant_sees_its_own_figures_only(
    context: Context,
    owner: Owner,
    hour: datetime,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
    scope: str,
) -> None:
    stranger = await _owner(make_endpoint, (await make_tenant())["id"])
    tally = Tally()
    _delivered(tally, owner, hour, 10)
    _delivered(tally, stranger, hour, 10, 10)
    await _record(context, tally)
    async with key_client(owner.tenant_id, scope=scope) as own:
        for query in ({}, {"tenant_id": owner.tenant_id}, {"endpoint_id": owner.endpoint_id}):
            assert (await _figures(own, hour, **query))["total"]["delivered"] == 1, query
        for query in (
            {"tenant_id": stranger.tenant_id},
            {"endpoint_id": stranger.endpoint_id},
            {"endpoint_id": stranger.endpoint_id, "tenant_id": stranger.tenant_id},
            {"endpoint_id": stranger.endpoint_id, "tenant_id": owner.tenant_id},
        ):
            refused = await own.get("/figures", params=query)
            assert_problem(refused, 404, code="not_found")
            unknown = {name: f"{one.split('_')[0]}_{'0' * 32}" for name, one in query.items()}
            same = await own.get("/figures", params=unknown)
            assert same.json()["detail"] == refused.json()["detail"]
    async with key_client(owner.tenant_id, scope="emit") as emitter:
        assert (await emitter.get("/figures")).status_code == 403


async def test_a_link_to_one_endpoint_has_its_figures_only(
    context: Context, owner: Owner, hour: datetime, make_endpoint: Make
) -> None:
    second = await _owner(make_endpoint, owner.tenant_id)
    tally = Tally()
    _delivered(tally, owner, hour, 10)
    _delivered(tally, second, hour, 10, 10)
    await _record(context, tally)
    linked = Principal(
        scope="tenant:read",
        tenant_id=owner.tenant_id,
        key_id="key_of_a_link",
        by_link=True,
        endpoint_id=owner.endpoint_id,
    )
    found = await routes.get_figures(context, linked)
    assert found.total.delivered == 1
    with pytest.raises(NotFound):
        await routes.get_figures(context, linked, endpoint_id=second.endpoint_id)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"step": "7m"}, "step"),
        ({"step": "2d"}, "step"),
        ({"by": "tenant"}, "by"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-11-20T00:00:00Z", "until": "2026-11-20T00:00:00Z"}, "since"),
        ({"since": "0001-01-01T00:00:00Z"}, "since"),  # there is no longer step
        ({"since": "0001-01-01T00:00:00Z", "step": "1h"}, "step"),
        ({"until": "0001-01-01T00:00:00Z"}, "since"),
        ({"until": "0001-01-01T00:00:01Z", "step": "1m"}, "step"),
        ({"by": "type", "step": "30m"}, "step"),
    ],
)
async def test_a_time_without_figures_is_refused(
    client: httpx2.AsyncClient, query: dict[str, str], pointer: str
) -> None:
    assert_problem(
        await client.get("/figures", params=query), 422, code="invalid_input", pointer=pointer
    )


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59Z", "0001-01-02T00:00:00Z"])
async def test_the_ends_of_the_calendar_have_no_figures(
    client: httpx2.AsyncClient, until: str
) -> None:
    answer = await client.get("/figures", params={"until": until})
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"]["accepted"] == 0
    assert datetime.fromisoformat(answer.json()["until"]) <= utc_now().astimezone(UTC) + HOUR
