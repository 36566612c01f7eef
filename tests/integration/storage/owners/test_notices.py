"""Notices to owners are stored once, and request a workflow until it was started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.owners.digest import MailInput
from hookfast.owners.notice import NoticeKind, owner_hash
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.owners import digests, notices
from hookfast.storage.owners.notices import MailWorkflowRequests
from hookfast.storage.tables import Endpoint, Notice
from hookfast.workflow_request import WorkflowRequest
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

REQUESTS = MailWorkflowRequests(gather=timedelta(seconds=1), digest_every=timedelta(minutes=15))
ANN, BOB = "ann@shop.example", "Bob@shop.example"


async def endpoint_of(database: Database, *owners: str) -> str:
    url = "https://shop.example/hooks?token=secret"
    return await seed_endpoint(database, url, owner_emails=list(owners))


async def add(
    database: Database,
    endpoint_id: str,
    *,
    episode: int = 1,
    kind: NoticeKind = NoticeKind.OPENED,
) -> int:
    async with database.write() as connection:
        return await notices.add(
            connection,
            endpoint_id=endpoint_id,
            episode=episode,
            kind=kind,
            facts={"failures": 5},
            at=utc_now(),
        )


async def find(database: Database, *, limit: int = 100) -> list[WorkflowRequest]:
    async with database.read() as connection:
        return await REQUESTS.find(connection, limit=limit)


async def mark(database: Database, requests: Sequence[WorkflowRequest]) -> None:
    async with database.write() as connection:
        await REQUESTS.mark(connection, requests, now=utc_now())


async def test_owner_listed_twice_gets_one_notice(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN, BOB, ANN.upper())
    assert await add(database, endpoint_id) == 2


async def test_each_owner_gets_one_notice_per_episode_and_kind(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN, BOB)

    assert await add(database, endpoint_id) == 2
    assert await add(database, endpoint_id) == 0
    assert await add(database, endpoint_id, kind=NoticeKind.RECOVERED) == 2
    assert await add(database, endpoint_id, episode=2) == 2

    async with database.read() as connection:
        listed = await notices.list_of_endpoint(connection, endpoint_id)
    assert [(one.episode, one.kind) for one in listed] == [
        *[(2, "opened")] * 2,
        *[(1, "recovered")] * 2,
        *[(1, "opened")] * 2,
    ]
    assert {one.email for one in listed} == {ANN, BOB}
    assert {one.status for one in listed} == {"pending"}
    assert listed[0].facts == {"failures": 5}


async def test_owner_added_later_gets_a_notice(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN)
    await add(database, endpoint_id)
    async with database.write() as connection:
        await connection.execute(update(Endpoint.__table__).values(owner_emails=[ANN, BOB]))
    assert await add(database, endpoint_id) == 1


async def test_endpoint_without_owners_or_deleted_gets_no_notices(
    database: Database,
) -> None:
    assert await add(database, await endpoint_of(database)) == 0
    assert await add(database, "ep_unknown") == 0
    deleted = await endpoint_of(database, ANN)
    async with database.write() as connection:
        await endpoints.mark_deleted(connection, deleted, at=utc_now())
    assert await add(database, deleted) == 0


async def test_only_the_newest_fifty_are_listed(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN)
    for episode in range(60):
        await add(database, endpoint_id, episode=episode)
    async with database.read() as connection:
        listed = await notices.list_of_endpoint(connection, endpoint_id)
    assert [one.episode for one in listed] == list(range(59, 9, -1))


async def test_one_workflow_per_owner_is_requested_without_the_address(
    database: Database,
) -> None:
    first = await endpoint_of(database, ANN, BOB)
    second = await endpoint_of(database, ANN.upper())
    for endpoint_id in (first, second):
        await add(database, endpoint_id)

    requests = await find(database)

    assert {one.workflow_id for one in requests} == {
        f"mail/{owner_hash(ANN)}",
        f"mail/{owner_hash(BOB)}",
    }
    (anns,) = [one for one in requests if one.workflow_id.endswith(owner_hash(ANN))]
    assert len(anns.key) == 2
    assert anns.argument == MailInput(owner_hash(ANN), 1.0, 900.0)
    shown = repr([(one.workflow_id, one.argument, one.summary) for one in requests]).lower()
    assert "shop.example" not in shown


async def test_marked_notices_request_no_workflow(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN, BOB)
    await add(database, endpoint_id)

    for _ in range(2):
        (one,) = await find(database, limit=1)
        await mark(database, [one])

    assert await find(database) == []


async def test_notice_added_after_the_read_still_requests_its_workflow(database: Database) -> None:
    endpoint_id = await endpoint_of(database, ANN)
    await add(database, endpoint_id)
    seen = await find(database)
    await add(database, endpoint_id, kind=NoticeKind.DISABLED)

    await mark(database, seen)

    (left,) = await find(database)
    assert len(left.key) == 1
    assert left.key != seen[0].key


async def test_more_notices_than_a_statement_has_parameters_are_marked(
    database: Database,
) -> None:
    await add(database, await endpoint_of(database, ANN))
    async with database.write() as connection:
        table = Notice.__table__
        [first] = (await connection.execute(select(table))).mappings()
        copies = [{**first, "id": new_id("ntc"), "episode": n} for n in range(2, 2_101)]
        await connection.execute(insert(table), copies)
    requests = await find(database)
    assert [len(one.key) for one in requests] == [2_100]
    await mark(database, requests)
    assert await find(database) == []


async def test_overdue_notice_requests_its_workflow_again_unless_sent(
    database: Database,
) -> None:
    waits, sent = [await endpoint_of(database, ANN) for _ in range(2)]
    for endpoint_id in (waits, sent):
        await add(database, endpoint_id)
    await mark(database, await find(database))
    async with database.write() as connection:
        c = Notice.__table__.c
        ids = await connection.execute(select(c.id).where(c.endpoint_id == sent))
        await digests.mark_sent(connection, list(ids.scalars()), at=utc_now())

    async with database.write() as connection:
        now = utc_now()
        day = timedelta(days=1)
        assert await notices.request_stalled_workflows(connection, started_before=now - day) == 0
        assert await notices.request_stalled_workflows(connection, started_before=now + day) == 1

    (request,) = await find(database)
    assert len(request.key) == 1


async def test_notice_sent_at_once_requests_no_workflow(database: Database) -> None:
    await add(database, await endpoint_of(database, ANN))
    async with database.write() as connection:
        ids = await connection.execute(select(Notice.__table__.c.id))
        await digests.mark_sent(connection, list(ids.scalars()), at=utc_now())
    assert await find(database) == []
