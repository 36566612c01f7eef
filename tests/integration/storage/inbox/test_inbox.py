"""The stored inbox: keys that expire, query plans of lists, concurrent processes, rekeying."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.inbox.source_secrets import open_secrets
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import inbox_entries, inbox_keys, sources
from hookfast.storage.inbox.inbox_entries import InboxFilter
from hookfast.storage.inbox.inbox_keys import Claim
from hookfast.storage.keys.rekey import rekey, survey
from hookfast.storage.tables import InboxKey
from tests.integration.storage.emitting.emitters import seed_tenant
from tests.integration.storage.inbox.arrivals import HOUR, NOW, arrival_of, process
from tests.support.query_plan import explain
from tests.support.seed import KEY
from tests.support.seed_inbox import SOURCE_SECRET, seed_source

pytestmark = pytest.mark.anyio


def claim(key: str, inbox_id: str, *, at: datetime = NOW, lasts: timedelta = HOUR) -> Claim:
    return Claim(
        source_id="src_1",
        key=key,
        inbox_id=inbox_id,
        seen_at=at,
        expires_at=at + lasts,
    )


async def claimed(database: Database, *claims: Claim) -> dict[Any, str]:
    async with database.write() as connection:
        return await inbox_keys.claim(connection, claims)


async def test_first_claimant_holds_a_key_until_it_expires(database: Database) -> None:
    name = ("src_1", "d:a", "")
    assert await claimed(database, claim("d:a", "1"), claim("d:a", "2")) == {name: "1"}
    almost = NOW + HOUR - timedelta(microseconds=1)
    assert await claimed(database, claim("d:a", "3", at=almost)) == {name: "1"}
    assert await claimed(database, claim("d:a", "4", at=NOW + HOUR)) == {name: "4"}
    assert await claimed(database, claim("d:a", "5", at=NOW + HOUR)) == {name: "4"}
    # with several keys, each has its own holder
    both = await claimed(database, claim("d:a", "6", at=almost), claim("d:b", "6"))
    assert both == {name: "4", ("src_1", "d:b", ""): "6"}


async def test_only_expired_keys_are_deleted_in_batches(database: Database) -> None:
    old = [claim(f"d:{n}", "1", at=NOW - HOUR) for n in range(5)]
    await claimed(database, *old, claim("d:new", "1"))
    gone = []
    for _ in range(4):
        async with database.write() as connection:
            gone.append(await inbox_keys.expire(connection, now=NOW, limit=2))
    assert gone == [2, 2, 1, 0]
    async with database.read() as connection:
        left = await connection.execute(select(InboxKey.__table__.c.key))
        assert list(left.scalars()) == ["d:new"]


async def test_claimed_key_is_not_deleted_before_its_transaction_ends(
    database: Database,
) -> None:
    await claimed(database, claim("d:a", "1"))

    async def expire() -> int:
        async with database.write() as connection:
            return await inbox_keys.expire(connection, now=NOW + HOUR, limit=10)

    async with database.write() as asking:
        # a request that was received just before the key expired
        almost = claim("d:a", "2", at=NOW + HOUR - timedelta(microseconds=1))
        assert await inbox_keys.claim(asking, [almost]) == {almost.name: "1"}
        expiring = asyncio.create_task(expire())
        if database.kind == "postgresql":
            assert await expiring == 0  # it skips locked keys
        name = {"source_id": almost.source_id, "key": almost.key}
        assert await inbox_keys.find_holders(asking, **name) == ["1"]
    if database.kind == "sqlite":
        assert await expiring == 1  # it waited for the claiming transaction


@pytest.mark.parametrize(
    ("chosen", "index"),
    [
        (InboxFilter(), "inbox"),
        (InboxFilter(source_id="src_1", status="failed"), "ix_inbox_source"),
        (InboxFilter(tenant_id="tnt_1", event_type="a.b.c"), "ix_inbox_tenant"),
        (InboxFilter(source_id="src_1", tenant_id="tnt_1"), "ix_inbox_source"),
        (InboxFilter(status="suppressed"), "ix_inbox_not_accepted"),
        (InboxFilter(since=NOW - HOUR, until=NOW), "inbox"),
        (InboxFilter(source_id="src_1", since=NOW - HOUR, until=NOW), "ix_inbox_source"),
    ],
    ids=str,
)
async def test_a_list_is_one_ordered_range_of_one_index(
    database: Database, chosen: InboxFilter, index: str
) -> None:
    async with database.read() as connection:
        query = inbox_entries.list_page(connection, chosen, after=new_id("inb", NOW), limit=50)
        if database.kind == "sqlite":
            plan = await explain(connection, query)
            assert ("sqlite_autoindex_inbox_1" if index == "inbox" else index) in plan
            assert "TEMP B-TREE" not in plan
        else:
            # on an empty table all plans cost the same: rule out the wrong ones for a full table
            for method in ("seqscan", "sort", "bitmapscan"):
                await connection.execute(text(f"SET LOCAL enable_{method} = off"))
            plan = await explain(connection, query)
            assert "Index" in plan
            assert "Sort" not in plan


async def test_same_request_at_two_processes_is_stored_once(
    database: Database,
) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    async with process(database.url) as one, process(database.url) as two:
        storing = [
            inbox.store(arrival_of(source, tenant, f"id:{n}"))
            for inbox, order in ((one, range(30)), (two, reversed(range(30))))
            for n in order
        ]
        results = await asyncio.gather(*storing)
    assert [result.duplicate for result in results].count(False) == 30
    assert len({result.event_id for result in results}) == 30


async def test_one_delivery_id_with_two_bodies_at_two_processes_is_one_event_of_each(
    database: Database,
) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    async with process(database.url) as one, process(database.url) as two:
        storing = [
            inbox.store(arrival_of(source, tenant, f"id:{n // 2}", sha256=f"{n % 2}"))
            for inbox, order in ((one, range(30)), (two, reversed(range(30))))
            for n in order
        ]
        results = await asyncio.gather(*storing)
    assert len({result.event_id for result in results}) == 30
    assert {result.conflict for result in results} == {False}


async def test_key_for_any_body_counts_other_bodies_as_conflicts(database: Database) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    async with process(database.url) as inbox:
        first, *others = [
            await inbox.store(arrival_of(source, tenant, "key:1", any_body=True, sha256=sha256))
            for sha256 in ("a", "a", "b")
        ]
    assert [(one.id, one.duplicate, one.conflict) for one in others] == [
        (first.id, True, False),
        (first.id, True, True),
    ]


async def test_same_business_key_at_two_processes_is_emitted_once(database: Database) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    async with process(database.url) as one, process(database.url) as two:
        storing = [
            inbox.store(arrival_of(source, tenant, f"id:{name}{n}", business_key=f"fact {n % 10}"))
            for name, inbox, order in (("a", one, range(30)), ("b", two, reversed(range(30))))
            for n in order
        ]
        results = await asyncio.gather(*storing)
    accepted = {result.id for result in results if result.status == "accepted"}
    assert len(accepted) == 10
    suppressed_by = [one.suppressed_by for one in results if one.status == "suppressed"]
    assert len(suppressed_by) == 50
    assert set(suppressed_by) == accepted


async def test_request_that_cannot_be_stored_does_not_fail_its_group(
    database: Database,
) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    broken: Any = None  # the column is NOT NULL
    arrivals = [arrival_of(source, tenant, f"id:{n}") for n in range(6)]
    arrivals[3] = replace(arrivals[3], content_type=broken)
    async with process(database.url) as inbox:
        results = await asyncio.gather(
            *(inbox.store(one) for one in arrivals), return_exceptions=True
        )
    failed = [n for n, one in enumerate(results) if isinstance(one, BaseException)]
    assert failed == [3]
    async with database.read() as connection:
        keys = await connection.execute(select(InboxKey.__table__.c.key))
        assert sorted(keys.scalars()) == [f"d:id:{n}" for n in (0, 1, 2, 4, 5)]


async def test_rekey_reseals_a_sources_secrets(database: Database) -> None:
    source = await seed_source(database, await seed_tenant(database))
    new = b"n" * 32
    both = Keyring([new, KEY])
    assert (await survey(database, both)).older == 1
    assert await rekey(database, both) == 1
    async with database.read() as connection:
        row = await sources.get(connection, source)
    assert row is not None
    [secret] = open_secrets(row.secrets, Keyring([new]), source_id=source, now=utc_now())
    assert secret.text == SOURCE_SECRET
    assert SOURCE_SECRET not in repr(secret)
