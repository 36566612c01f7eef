"""Jobs as rows: what they choose, how they move on, and when they ask for their workflow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hookfast.deliveries.job import JobInput, JobProgress, JobStatus
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import jobs, selection
from hookfast.storage.deliveries.jobs import JobWorkflowRequests
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Delivery, Job

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
DEAD = DeliveryStatus.DEAD
TENANT, OTHER = "tnt_" + "a" * 32, "tnt_" + "b" * 32


async def add_deliveries(database: Database, *rows: dict[str, Any]) -> list[str]:
    """Deliveries a second apart; returns their ids."""
    complete = []
    for number, row in enumerate(rows):
        at = NOW + timedelta(seconds=number)
        complete.append(
            {
                "id": new_id("dlv", at),
                "event_id": "evt_1",
                "subscription_id": "sub_1",
                "endpoint_id": "ep_1",
                "tenant_id": TENANT,
                "event_type": "order.invoice.paid",
                "payload": "full",
                "status": "dead",
                "reason": None,
                "attempts": 1,
                "retries": 0,
                "created_at": at,
                "updated_at": at,
                "finished_at": None,
                "started_at": at,
                "resend_not_before": None,
            }
            | row
        )
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), complete)
    return [row["id"] for row in complete]


async def add_job(database: Database, **members: Any) -> Job:
    job = Job(
        **{
            "id": new_id("job", NOW),
            "kind": "action",
            "action": "resend",
            "chosen": {},
            "rate_per_second": 5.0,
            "status": "pending",
            "total": 1_200,
            "requested_by": "key_1",
            "created_at": NOW,
            "updated_at": NOW,
        }
        | members
    )
    async with database.write() as connection:
        await jobs.add(connection, job)
    return job


async def stored(database: Database, job: Job) -> Job:
    async with database.read() as connection:
        found = await jobs.get(connection, job.id)
    assert found is not None
    return found


async def all_chunks(database: Database, chosen: DeliverySelection, *, limit: int) -> list[str]:
    """Everything chosen, read a chunk at a time."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        async with database.read() as connection:
            ids = await selection.next_ids(connection, chosen, after=after, limit=limit)
        if not ids:
            return found
        assert len(ids) <= limit
        found += ids


# -- what is chosen


FULL = DeliverySelection(
    tenant_id=TENANT,
    statuses=(DEAD, DeliveryStatus.GONE),
    since=NOW,
    finished_until=LATER,
    ids=("dlv_1", "dlv_2"),
    up_to="dlv_9",
)


@pytest.mark.parametrize(
    "chosen",
    [
        DeliverySelection(),
        FULL,
        DeliverySelection(up_to=""),
        DeliverySelection(after="dlv_1", without=(FULL, DeliverySelection(statuses=(DEAD,)))),
    ],
)
async def test_a_choice_is_the_same_after_it_was_stored(
    database: Database, chosen: DeliverySelection
) -> None:
    job = await add_job(database, chosen=chosen.document())
    assert DeliverySelection.from_document((await stored(database, job)).chosen) == chosen


# What is chosen, and which of the six deliveries below that is.
CHOICES = [
    (DeliverySelection(), [0, 1, 2, 3, 4, 5]),
    (DeliverySelection(statuses=(DEAD,)), [0, 3]),
    (DeliverySelection(statuses=(DEAD, DeliveryStatus.GONE)), [0, 1, 3]),
    (DeliverySelection(statuses=(DEAD, DeliveryStatus.DELIVERED)), [0, 2, 3]),
    (DeliverySelection(statuses=(DeliveryStatus.PAUSED, DeliveryStatus.PENDING)), [4, 5]),
    (DeliverySelection(statuses=(DeliveryStatus.HELD,)), []),
    (DeliverySelection(statuses=(DEAD, DeliveryStatus.GONE), reason="retries_exhausted"), [0]),
    (DeliverySelection(reason="endpoint_limit"), [4, 5]),  # also a resend that has a turn
    (DeliverySelection(reason="endpoint_limit", statuses=(DeliveryStatus.PENDING,)), [4]),
    (DeliverySelection(tenant_id=OTHER), [3, 5]),
    (DeliverySelection(tenant_id=OTHER, statuses=(DEAD, DeliveryStatus.PAUSED)), [3, 5]),
    (DeliverySelection(endpoint_id="ep_2"), [1, 3]),
    (DeliverySelection(endpoint_id="ep_2", tenant_id=TENANT, statuses=(DEAD,)), []),
    (DeliverySelection(subscription_id="sub_2"), [3]),
    (DeliverySelection(subscription_id="sub_2", statuses=(DEAD, DeliveryStatus.HELD)), [3]),
    (DeliverySelection(event_id="evt_2"), [2]),
    (DeliverySelection(event_id="evt_2", statuses=(DEAD, DeliveryStatus.GONE)), []),
    (DeliverySelection(event_type="order.refund.made"), [4]),
    (DeliverySelection(since=NOW + timedelta(seconds=4)), [4, 5]),
    (DeliverySelection(until=NOW + timedelta(seconds=1)), [0]),
    (DeliverySelection(finished_since=LATER), [1]),
    (DeliverySelection(finished_until=LATER), [0]),
]


@pytest.mark.parametrize(("chosen", "expected"), CHOICES)
async def test_what_is_chosen_is_counted_and_read_oldest_first(
    database: Database, chosen: DeliverySelection, expected: list[int]
) -> None:
    ids = await add_deliveries(
        database,
        {"status": "dead", "reason": "retries_exhausted", "finished_at": NOW},
        {"status": "gone", "endpoint_id": "ep_2", "finished_at": LATER},
        {"status": "delivered", "event_id": "evt_2"},
        {
            "status": "dead",
            "tenant_id": OTHER,
            "endpoint_id": "ep_2",
            "subscription_id": "sub_2",
        },
        {"status": "pending", "event_type": "order.refund.made", "reason": "endpoint_limit"},
        {"status": "paused", "tenant_id": OTHER, "resend_not_before": LATER},
    )
    for limit in (1, 2, 50):
        assert await all_chunks(database, chosen, limit=limit) == [ids[n] for n in expected]
    async with database.read() as connection:
        counted = await selection.count(connection, chosen)
    assert sum(counted.values()) == len(expected)
    assert all(counted.values())


async def test_a_count_says_how_many_there_are_in_each_status(database: Database) -> None:
    await add_deliveries(database, {}, {}, {"status": "gone"}, {"status": "delivered"})
    async with database.read() as connection:
        some = DeliverySelection(statuses=(DEAD, DeliveryStatus.GONE, DeliveryStatus.HELD))
        assert await selection.count(connection, some) == {"dead": 2, "gone": 1}
        everything = await selection.count(connection, DeliverySelection())
    assert everything == {"delivered": 1, "dead": 2, "gone": 1}


async def test_listed_ids_are_chosen_where_the_rest_of_the_filter_fits(database: Database) -> None:
    ids = await add_deliveries(database, {}, {"tenant_id": OTHER}, {"status": "held"}, {})
    chosen = DeliverySelection(ids=(ids[2], ids[1], ids[0], "dlv_unknown"))
    assert await all_chunks(database, chosen, limit=2) == ids[:3]
    assert await all_chunks(database, replace(chosen, tenant_id=TENANT), limit=2) == [
        ids[0],
        ids[2],
    ]
    assert await all_chunks(database, replace(chosen, statuses=(DEAD,)), limit=2) == ids[:2]


async def test_deliveries_that_come_later_do_not_join(database: Database) -> None:
    async with database.read() as connection:
        nothing = await selection.newest_id(connection)
    earlier = await add_deliveries(database, {}, {"status": "delivered"})
    async with database.read() as connection:
        newest = await selection.newest_id(connection)
    late = {"id": new_id("dlv", NOW + timedelta(hours=1))}
    await add_deliveries(database, late)

    for chosen in (DeliverySelection(), DeliverySelection(statuses=tuple(DeliveryStatus))):
        assert await all_chunks(database, replace(chosen, up_to=newest), limit=50) == earlier
        assert await all_chunks(database, replace(chosen, up_to=nothing), limit=50) == []


# What another job chose and has yet to come to, and which of the five deliveries below are left for
# a job that chose them all.
WITHOUT = [
    (DeliverySelection(), []),
    (DeliverySelection(statuses=(DEAD,)), [2, 3, 4]),
    (DeliverySelection(reason="gone"), [0, 2, 3, 4]),  # most have no reason
    (DeliverySelection(finished_since=NOW), [1, 2, 3, 4]),  # and some no end
    (DeliverySelection(finished_until=LATER, tenant_id=TENANT), [1, 2, 3, 4]),
    (DeliverySelection(tenant_id=OTHER), [0, 1, 2, 3]),
    (DeliverySelection(endpoint_id="ep_2", event_type="order.invoice.paid"), [0, 1, 2, 4]),
    (DeliverySelection(since=NOW + timedelta(seconds=3)), [0, 1, 2]),
    (DeliverySelection(ids=("dlv_unknown",)), [0, 1, 2, 3, 4]),
]


@pytest.mark.parametrize(("other", "expected"), WITHOUT)
async def test_what_another_job_has_yet_to_come_to_is_left_out(
    database: Database, other: DeliverySelection, expected: list[int]
) -> None:
    ids = await add_deliveries(
        database,
        {"finished_at": NOW},
        {"reason": "gone"},
        {"status": "delivered"},
        {"status": "pending", "endpoint_id": "ep_2"},
        {"status": "paused", "tenant_id": OTHER},
    )
    for statuses in ((), tuple(DeliveryStatus)):
        chosen = DeliverySelection(statuses=statuses, without=(other,))
        assert await all_chunks(database, chosen, limit=2) == [ids[n] for n in expected]
        async with database.read() as connection:
            counted = await selection.count(connection, chosen)
        assert sum(counted.values()) == len(expected)


async def test_what_another_job_has_come_to_already_is_not_left_out(database: Database) -> None:
    ids = await add_deliveries(database, {}, {}, {}, {})
    others = (
        DeliverySelection(statuses=(DEAD,), after=ids[1]),
        DeliverySelection(ids=(ids[0], ids[3]), after=ids[0]),
    )
    chosen = DeliverySelection(statuses=(DEAD,), without=others)
    assert await all_chunks(database, chosen, limit=50) == ids[:2]


# How a delivery stands that a job has asked to send again, and whether the job waits for it.
PATIENCE = timedelta(minutes=1)
RESENDS: list[tuple[dict[str, Any], bool]] = [
    ({"status": "retrying", "resend_asked_at": NOW}, True),
    ({"status": "paused", "resend_asked_at": NOW}, True),
    ({"status": "retrying"}, False),  # its attempt was made
    ({"status": "dead"}, False),
    ({"status": "held", "resend_asked_at": NOW}, False),  # its endpoint is not well
    ({"resend_asked_at": NOW, "resend_not_before": NOW + PATIENCE / 2}, True),
    ({"resend_asked_at": NOW, "resend_not_before": NOW + PATIENCE}, False),
]


@pytest.mark.parametrize(("columns", "waits"), RESENDS)
async def test_a_job_waits_for_a_resend_that_can_be_made_before_long(
    database: Database, columns: dict[str, Any], waits: bool
) -> None:
    [delivery, _] = await add_deliveries(database, columns, columns)
    for ids in ([], [delivery], ["dlv_unknown", delivery]):
        async with database.read() as connection:
            found = await selection.resends_under_way(connection, ids, patience=PATIENCE, now=NOW)
        assert found == [one for one in ids if one == delivery and waits]


# -- how a job moves on


async def test_a_job_begins_once(database: Database) -> None:
    job = await add_job(database)
    for moment in (NOW, LATER):
        async with database.write() as connection:
            begun = await jobs.begin(connection, job.id, now=moment)
        assert begun is not None
        assert (begun.status, begun.started_at) == ("running", NOW)
    async with database.write() as connection:
        assert await jobs.begin(connection, "job_unknown", now=NOW) is None


async def test_progress_adds_up(database: Database) -> None:
    job = await add_job(database)
    for cursor, in_hand in (("dlv_1", ["dlv_0", "dlv_1"]), ("dlv_2", ["dlv_1"])):
        async with database.write() as connection:
            moved = await jobs.record_progress(
                connection, job, cursor=cursor, in_hand=in_hand, done=3, skipped=2, now=LATER
            )
        assert moved is not None
        job = moved
    assert jobs.progress_of(job) == JobProgress(JobStatus.PENDING, 1_200, 6, 4, 0)
    assert await stored(database, job) == job
    assert (job.cursor, job.in_hand) == ("dlv_2", ["dlv_1"])


async def test_two_workers_at_one_job_take_turns(database_url: str) -> None:
    """One was only thought dead: what it counts goes on where the other's transaction ended."""
    async with Database(database_url) as database, Database(database_url) as twin:
        job = await add_job(database)

        async def advance(database: Database) -> None:
            async with database.write() as connection:
                locked = await jobs.lock(connection, job.id)
                assert locked is not None
                number = 1 + int((locked.cursor or "dlv_0").removeprefix("dlv_"))
                await asyncio.sleep(0)  # the other one's turn to ask for the row
                await jobs.record_progress(
                    connection,
                    locked,
                    cursor=f"dlv_{number}",
                    in_hand=[],
                    done=1,
                    skipped=0,
                    now=LATER,
                )

        await asyncio.gather(*(advance(one) for one in (database, twin) * 8))
        moved = await stored(database, job)
    assert (moved.cursor, moved.done) == ("dlv_16", 16)


async def test_a_job_that_sends_again_is_known_while_it_is_under_way(database: Database) -> None:
    resending = await add_job(database, status="running")
    await add_job(database, action="pause")
    await add_job(database, status="done")
    await add_job(database, status="running", cancel_requested=True)  # it asks no more
    async with database.read() as connection:
        assert [one.id for one in await jobs.unfinished_resends(connection)] == [resending.id]


async def test_a_job_that_has_ended_stays_as_it_is(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        ended = await jobs.finish(connection, job.id, status=JobStatus.CANCELLED, now=NOW)
    assert ended is not None
    assert (ended.status, ended.finished_at) == ("cancelled", NOW)
    async with database.write() as connection:
        assert await jobs.finish(connection, job.id, status=JobStatus.DONE, now=LATER) is None
        assert await jobs.request_cancel(connection, job.id, now=LATER) is None
        moved = await jobs.record_progress(
            connection, job, cursor="dlv_1", in_hand=[], done=1, skipped=0, now=LATER
        )
        assert moved is None
        assert await jobs.lock(connection, job.id) is None
        begun = await jobs.begin(connection, job.id, now=LATER)
    assert begun == ended


async def test_jobs_are_listed_newest_first(database: Database) -> None:
    members: list[dict[str, Any]] = [
        {"tenant_id": TENANT},
        {"tenant_id": OTHER, "status": "done"},
        {},
        {"tenant_id": TENANT, "status": "done"},
    ]
    made = [
        (await add_job(database, id=new_id("job", NOW + timedelta(seconds=n)), **member)).id
        for n, member in enumerate(members)
    ]

    async def listed(
        tenant_id: str | None = None, status: JobStatus | None = None, after: str | None = None
    ) -> list[int]:
        async with database.read() as connection:
            rows = await jobs.list_page(
                connection, tenant_id=tenant_id, status=status, after=after, limit=3
            )
        return [made.index(row.id) for row in rows]

    assert await listed() == [3, 2, 1]
    assert await listed(after=made[1]) == [0]
    assert await listed(TENANT) == [3, 0]
    assert await listed(TENANT, JobStatus.PENDING) == [0]
    assert await listed(status=JobStatus.DONE) == [3, 1]


# -- asking for the workflow


async def test_a_new_job_asks_for_its_workflow_until_it_is_started(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        [wanted] = await JobWorkflowRequests().find(connection, limit=10)
        await JobWorkflowRequests().mark(connection, [wanted], now=LATER)
    assert wanted.workflow_id == f"job/{job.id}"
    assert wanted.argument == JobInput(job.id, "resend", JobProgress(total=1_200))
    assert wanted.summary == "action: resend 1,200 deliveries"
    async with database.read() as connection:
        assert await JobWorkflowRequests().find(connection, limit=10) == []
    assert (await stored(database, job)).workflow_started_at == LATER


async def test_a_job_that_is_cancelled_while_it_is_started_still_asks(database: Database) -> None:
    job = await add_job(database)
    async with database.read() as connection:
        seen = await JobWorkflowRequests().find(connection, limit=10)
    async with database.write() as connection:
        await jobs.request_cancel(connection, job.id, now=LATER)
        await JobWorkflowRequests().mark(connection, seen, now=LATER)

    async with database.write() as connection:
        [wanted] = await JobWorkflowRequests().find(connection, limit=10)
        assert wanted.workflow_id == f"job/{job.id}"
        await JobWorkflowRequests().mark(connection, [wanted], now=LATER)
        assert await JobWorkflowRequests().find(connection, limit=10) == []


async def test_a_job_that_has_ended_asks_for_nothing(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        await jobs.finish(connection, job.id, status=JobStatus.DONE, now=LATER)
        assert await JobWorkflowRequests().find(connection, limit=10) == []


@pytest.mark.parametrize(
    ("status", "moved", "told", "asks"),
    [
        ("running", -2, -2, True),
        ("pending", -2, -2, True),  # its workflow was lost before it began
        ("running", -0.5, -2, False),  # it moves
        ("running", -2, -0.5, False),  # it has just been told
        ("done", -2, -2, False),
    ],
)
async def test_only_a_job_that_has_not_moved_for_long_is_asked_for_again(
    database: Database, status: str, moved: float, told: float, asks: bool
) -> None:
    """`moved` and `told` are hours from now."""
    hour = timedelta(hours=1)
    job = await add_job(
        database,
        status=status,
        updated_at=NOW + moved * hour,
        workflow_started_at=NOW + told * hour,
    )
    async with database.write() as connection:
        assert await jobs.request_stalled_workflows(connection, unmoved_since=NOW - hour) == int(
            asks
        )
    async with database.read() as connection:
        wanted = await JobWorkflowRequests().find(connection, limit=10)
    assert [one.workflow_id for one in wanted] == [f"job/{job.id}"] * asks
