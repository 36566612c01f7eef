"""The relay against a real PostgreSQL and a real API: one event for each committed row."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from hookfast.storage.tables import Event
from hookfast_client import AsyncHookfast, ConnectionFailed
from hookfast_client.outbox import emit_in
from hookfast_client.outbox.connection import DatabaseUnusable
from hookfast_client.outbox.queue import Figures
from hookfast_client.outbox.relay import KeyDenied
from hookfast_client.outbox.run import poster
from tests.integration.client.outbox.world import TYPE, Heard, World, running
from tests.support.database_proxy import DatabaseProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_rows_become_events_in_their_order_and_are_deleted(world: World) -> None:
    await world.emit(*range(25))
    heard = await world.drain(rows=10)
    assert [batch.sent for batch in heard.batches] == [10, 10, 5]
    assert await world.events() == list(range(25))
    assert await world.rows() == []
    assert heard.last == Figures(waiting=0, rejected=0, lag_seconds=0)
    assert (heard.rejections, heard.away) == ([], [])


async def test_everything_of_a_row_reaches_the_event(world: World) -> None:
    tenant = (await world.post("/tenants", {"name": "Acme"}))["id"]
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    data = '{ "größe": 1.10, "big": 123456789012345678901234567890 }'
    await world.execute(
        "INSERT INTO hookfast_outbox (type, data, tenant_id, deliver_at, traceparent) "
        "VALUES ($1, $2, $3, now() + interval '1 day', $4)",
        *(TYPE, data, tenant, trace),
    )
    async with world.connection() as connection:
        deliver_at = await connection.fetchval("SELECT deliver_at FROM hookfast_outbox")
    await world.drain(keep=timedelta(hours=1))
    [kept] = await world.rows("sent_at IS NOT NULL")
    async with world.served.context.database.read() as connection:
        event = (await connection.execute(select(Event.__table__))).one()
    assert kept["event_id"] == event.id
    assert (event.type, event.tenant_id, event.traceparent) == (TYPE, tenant, trace)
    assert event.deliver_at == deliver_at
    body = event.body if isinstance(event.body, str) else event.body.decode()
    assert data in body  # byte for byte


async def test_row_that_commits_late_is_not_passed_over(world: World) -> None:
    """Its id is lower than those that were sent before."""
    async with world.connection() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await emit_in(slow, TYPE, "slow")
        await world.emit("quick")
        await world.drain()
        assert await world.events() == ["quick"]
        await transaction.commit()
    await world.emit_and_roll_back("never")
    await world.drain()
    assert await world.events() == ["quick", "slow"]


async def test_relay_wakes_at_a_commit_also_after_its_connection_was_lost(world: World) -> None:
    heard = Heard()
    async with running(world.relay(heard, poll_seconds=3600)):
        await world.emit("woken")
        await eventually(lambda: _true(heard.sent == 1))
        await world.end_relays_connections()
        await eventually(lambda: _true(heard.connections == 2))
        await world.emit("again")
        await eventually(lambda: _true(heard.sent == 2))
    assert await world.events() == ["woken", "again"]


async def test_relay_outlives_an_outage_of_its_database(world: World) -> None:
    heard = Heard()
    async with DatabaseProxy(world.url.replace("://", "+asyncpg://")) as proxy:
        relay = world.relay(heard)
        relay.database_url = proxy.url
        async with running(relay):
            await eventually(lambda: _true(heard.connections == 1))
            await proxy.cut()
            await world.emit(1, 2, 3)
            await eventually(lambda: _true(len(heard.away) >= 2))
            await proxy.listen()
            await eventually(lambda: _true(heard.sent == 3))
    assert await world.events() == [1, 2, 3]


async def test_rejected_rows_stay_and_stop_no_others(world: World) -> None:
    await world.put("/event-types/order.invoice.voided", {"schema": {"type": "object"}})
    insert = "INSERT INTO hookfast_outbox (type, data) VALUES ($1, $2)"
    await world.emit("first")
    await world.emit("type", type="order.invoice.unknown")
    await world.emit("schema", type="order.invoice.voided")
    await world.emit("tenant", tenant_id="tnt_" + "0" * 32)
    await world.emit("x" * world.served.context.settings.max_event_bytes)
    # only other programs can insert these; the first four make a whole batch unreadable
    for data in ('{"a": 1, "a": 2}', '"\\ud800"', "[" * 80 + "]" * 80):
        await world.execute(insert, TYPE, data)
    await world.execute(insert, TYPE, f'"{"x" * 20_000_000}"')
    await world.execute(insert, "Not A Type", "1")
    for at in ("infinity", "-infinity", "0044-03-15 00:00:00+00 BC"):
        await world.execute(
            "INSERT INTO hookfast_outbox (type, data, deliver_at, created_at) "
            "VALUES ($1, '1', $2::text::timestamptz, $2::text::timestamptz)",
            *(TYPE, at),
        )
    await world.emit("last")
    heard = await world.drain()
    assert await world.events() == ["first", "last"]
    rejected = await world.rows()
    assert [row["error"].partition(":")[0] for row in rejected] == [
        "unknown_event_type",
        "schema_violation",
        "not_found",
        "too_large",
        *["invalid_json"] * 3,
        "too_large",
        "invalid_event_type",
        *["invalid_input"] * 3,
    ]
    assert [row.id for row in heard.rejections] == [row["id"] for row in rejected]
    assert heard.last == Figures(waiting=0, rejected=12, lag_seconds=0)

    # as docs/outbox.md says
    await world.put("/event-types/order.invoice.unknown", {})
    await world.execute(
        "UPDATE hookfast_outbox SET rejected_at = NULL, error = NULL "
        "WHERE error LIKE 'unknown_event_type:%'"
    )
    await world.drain()
    assert await world.events() == ["first", "last", "type"]


async def test_tenant_over_its_quota_waits_and_the_others_do_not(world: World) -> None:
    full, other = [
        (await world.post("/tenants", {"name": name, "quotas": quotas}))["id"]
        for name, quotas in (("Full", {"events_per_day": 2}), ("Other", {}))
    ]
    for number in range(4):
        await world.emit(f"full {number}", tenant_id=full)
        await world.emit(f"other {number}", tenant_id=other)
    heard = await world.drain(rows=3)
    assert {tenant for tenant, _ in heard.postponements} == {full}
    events = await world.events()
    assert [one for one in events if "other" in one] == [f"other {n}" for n in range(4)]
    assert [one for one in events if "full" in one] == ["full 0", "full 1"]
    assert heard.last is not None
    assert (heard.last.waiting, heard.last.lag_seconds > 0) == (2, True)


@pytest.mark.parametrize("parallel", [False, True])
async def test_two_relays_at_once_send_each_row_once(world: World, parallel: bool) -> None:
    first, second = Heard(), Heard()
    async with (
        running(world.relay(first, rows=7, parallel=parallel)),
        running(world.relay(second, rows=5, parallel=parallel)),
    ):
        for number in range(10):
            await world.emit(*range(number * 10, number * 10 + 10))
        await eventually(lambda: _true(first.sent + second.sent == 100))
    assert first.connections == second.connections == 1
    assert sum(batch.replayed for heard in (first, second) for batch in heard.batches) == 0
    events = await world.events()
    assert (sorted(events) if parallel else events) == list(range(100))


@pytest.mark.parametrize(("parallel", "overtaking"), [(False, []), (True, [3, 4])])
async def test_no_relay_overtakes_another_unless_it_is_parallel(
    world: World, parallel: bool, overtaking: list[int]
) -> None:
    post = poster(world.hookfast)
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def slow(events: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
        under_way.set()
        await go_on.wait()
        return await post(events)

    await world.emit(1, 2)
    async with running(world.relay(post=slow, parallel=parallel)):
        await under_way.wait()
        await world.emit(3, 4)
        await world.drain(parallel=parallel)
        assert await world.events() == overtaking
        go_on.set()
        await eventually(world.is_empty)
    assert await world.events() == [*overtaking, *(n for n in (1, 2, 3, 4) if n not in overtaking)]


async def test_rows_whose_answer_was_lost_become_no_second_event(world: World) -> None:
    post = poster(world.hookfast)
    lost = iter([True, True, False])

    async def losing(events: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
        items = await post(events)
        if next(lost, False):
            raise ConnectionFailed("lost", outcome_unknown=True)
        return items

    await world.emit(1, 2)
    heard = await world.drain(post=losing)
    assert heard.away == ["ConnectionFailed"] * 2
    assert [(batch.sent, batch.replayed) for batch in heard.batches] == [(2, 2)]
    assert await world.events() == [1, 2]


async def test_rows_for_which_hookfast_had_no_time_come_next_and_in_order(world: World) -> None:
    post = poster(world.hookfast)
    sizes: list[int] = []

    async def short_of_time(events: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
        sizes.append(len(events))
        checked = 0 if len(sizes) == 1 else 2
        late = {"status": 503, "problem": {"code": "unavailable", "detail": "No time."}}
        items = await post(events[:checked]) if checked else []
        return [*items, *[late] * (len(events) - len(items))]

    await world.emit(*range(5))
    heard = await world.drain(post=short_of_time)
    assert sizes == [5, 5, 3, 1]
    assert heard.away == ["unavailable"]
    assert await world.events() == list(range(5))


async def test_sent_rows_are_kept_for_as_long_as_the_setting_says(world: World) -> None:
    await world.emit(1, 2)
    await world.drain(keep=timedelta(hours=2))
    assert [row["event_id"][:4] for row in await world.rows("sent_at IS NOT NULL")] == ["evt_"] * 2
    await world.execute(
        "UPDATE hookfast_outbox SET sent_at = now() - interval '3 hours' WHERE data::text = '1'"
    )
    await world.drain(keep=timedelta(hours=2))
    assert [row["data"] for row in await world.rows()] == ["2"]
    await world.drain()
    assert await world.rows() == []
    assert await world.events() == [1, 2]


async def test_relay_ends_if_its_key_or_its_table_cannot_be_used(world: World) -> None:
    await world.emit(1)
    async with AsyncHookfast(world.served.url, "hf_" + "x" * 40) as stranger:
        with pytest.raises(KeyDenied):
            await world.drain(post=poster(stranger))
    assert len(await world.rows()) == 1
    secret = "postgresql://app:s3cr3t@127.0.0.1:99999999/app"
    for url in (secret, "mysql://app:s3cr3t@127.0.0.1/app", "s3cr3t"):
        relay = world.relay()
        relay.database_url = url
        with pytest.raises(DatabaseUnusable) as raised:
            await relay.run()
        assert "s3cr3t" not in f"{raised.value!r}{relay!r}"
    await world.execute("DROP TABLE hookfast_outbox")
    with pytest.raises(DatabaseUnusable, match="does not exist"):
        await world.drain()


async def test_roles_need_only_the_rights_that_the_guide_names(world: World) -> None:
    for statement in (
        "CREATE ROLE outbox_app",
        "CREATE ROLE outbox_relay",
        "GRANT INSERT ON hookfast_outbox TO outbox_app",
        "GRANT SELECT, UPDATE, DELETE ON hookfast_outbox TO outbox_relay",
    ):
        await world.execute(statement)
    try:
        async with world.connection() as connection:
            await connection.execute("SET ROLE outbox_app")
            async with connection.transaction():
                await emit_in(connection, TYPE, 1)
        relay = world.relay()
        relay.database_url += "&options=-c%20role%3Doutbox_relay"
        await relay.run(until_empty=True)
        assert await world.events() == [1]
    finally:
        await world.execute("DROP OWNED BY outbox_app, outbox_relay")
        await world.execute("DROP ROLE outbox_app, outbox_relay")


async def _true(value: bool) -> bool:
    return value
