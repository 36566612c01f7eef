"""Stored jobs: their selections, their progress, and their requests for a workflow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
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
from tests.support.rows import delivery_row

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
DEAD = DeliveryStatus.DEAD
TENANT, OTHER = "tnt_" + "a" * 32, "tnt_" + "b" * 32


async def add_deliveries(database: Database, *rows: dict[str, Any]) -> list[str]:
    """Store deliveries that were created a second apart. Returns their ids."""
    complete = []
    for number, row in enumerate(rows):
        at = NOW + timedelta(seconds=number)
        same = {"tenant_id": TENANT, "status": "dead", "started_at": at}
        nulls = dict.fromkeys(("reason", "finished_at", "resend_not_before"))
        complete.append(delivery_row(at, **(same | nulls | row)))
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), complete)
    return [row["id"] for row in complete]


async def add_job(database: Database, **members: Any) -> Job:
    job = Job(
        **{
            "id": new_id("job", NOW),
            "kind": "action",
            "action": "resend",
            "filter": {},
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
    """Read the whole selection in chunks. Returns the ids."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        async with database.read() as connection:
            ids = await selection.next_ids(connection, chosen, after=after, limit=limit)
        if not ids:
            return found
        assert len(ids) <= limit
        found += ids


# -- selections -----------------------------------------------------------------------------------

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
async def test_a_selection_is_the_same_after_it_was_stored(
    database: Database, chosen: DeliverySelection
) -> None:
    job = await add_job(database, filter=chosen.document())
    assert DeliverySelection.from_document((await stored(database, job)).filter) == chosen


# A selection, and the positions of the selected ones of the six deliveries below.
SELECTIONS = [
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


async def test_selected_deliveries_are_counted_and_read_oldest_first(database: Database) -> None:
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
    for chosen, expected in SELECTIONS:
        for limit in (1, 2, 50):
            found = await all_chunks(database, chosen, limit=limit)
            assert found == [ids[n] for n in expected], chosen
        async with database.read() as connection:
            counted = await selection.count(connection, chosen)
        assert sum(counted.values()) == len(expected), chosen
        assert all(counted.values()), chosen


async def test_selected_deliveries_are_counted_by_status(database: Database) -> None:
    await add_deliveries(database, {}, {}, {"status": "gone"}, {"status": "delivered"})
    async with database.read() as connection:
        some = DeliverySelection(statuses=(DEAD, DeliveryStatus.GONE, DeliveryStatus.HELD))
        assert await selection.count(connection, some) == {"dead": 2, "gone": 1}
        everything = await selection.count(connection, DeliverySelection())
    assert everything == {"delivered": 1, "dead": 2, "gone": 1}


async def test_listed_ids_are_selected_if_they_match_the_filter(database: Database) -> None:
    ids = await add_deliveries(database, {}, {"tenant_id": OTHER}, {"status": "held"}, {})
    chosen = DeliverySelection(ids=(ids[2], ids[1], ids[0], "dlv_unknown"))
    assert await all_chunks(database, chosen, limit=2) == ids[:3]
    assert await all_chunks(database, replace(chosen, tenant_id=TENANT), limit=2) == [
        ids[0],
        ids[2],
    ]
    assert await all_chunks(database, replace(chosen, statuses=(DEAD,)), limit=2) == ids[:2]


async def test_later_deliveries_are_not_added_to_a_selection(database: Database) -> None:
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


# The part of another job's selection that it has not processed, and the positions of those of the
# five deliveries below that remain for a job that selects them all.
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


async def test_deliveries_that_another_job_has_still_to_process_are_left_out(
    database: Database,
) -> None:
    ids = await add_deliveries(
        database,
        {"finished_at": NOW},
        {"reason": "gone"},
        {"status": "delivered"},
        {"status": "pending", "endpoint_id": "ep_2"},
        {"status": "paused", "tenant_id": OTHER},
    )
    for (other, expected), statuses in product(WITHOUT, ((), tuple(DeliveryStatus))):
        chosen = DeliverySelection(statuses=statuses, without=(other,))
        found = await all_chunks(database, chosen, limit=2)
        assert found == [ids[n] for n in expected], chosen
        async with database.read() as connection:
            counted = await selection.count(connection, chosen)
        assert sum(counted.values()) == len(expected), chosen


async def test_deliveries_that_another_job_has_processed_are_included(database: Database) -> None:
    ids = await add_deliveries(database, {}, {}, {}, {})
    others = (
        DeliverySelection(statuses=(DEAD,), after=ids[1]),
        DeliverySelection(ids=(ids[0], ids[3]), after=ids[0]),
    )
    chosen = DeliverySelection(statuses=(DEAD,), without=others)
    assert await all_chunks(database, chosen, limit=50) == ids[:2]


# A delivery for which a job has requested a resend, and whether the job waits for it.
PATIENCE = timedelta(minutes=1)
RESENDS: list[tuple[dict[str, Any], bool]] = [
    ({"status": "retrying", "resend_asked_at": NOW}, True),
    ({"status": "paused", "resend_asked_at": NOW}, True),
    ({"status": "retrying"}, False),  # its attempt was made
    ({"status": "dead"}, False),
    ({"status": "held", "resend_asked_at": NOW}, False),  # its endpoint is failing
    ({"resend_asked_at": NOW, "resend_not_before": NOW + PATIENCE / 2}, True),
    ({"resend_asked_at": NOW, "resend_not_before": NOW + PATIENCE}, False),
]


async def test_a_job_waits_only_for_resends_that_are_expected_soon(database: Database) -> None:
    for columns, waits in RESENDS:
        [delivery, _] = await add_deliveries(database, columns, columns)
        for ids in ([], [delivery], ["dlv_unknown", delivery]):
            async with database.read() as connection:
                found = await selection.resends_under_way(
                    connection, ids, patience=PATIENCE, now=NOW
                )
            assert found == [one for one in ids if one == delivery and waits], columns


# -- progress -------------------------------------------------------------------------------------


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


async def test_two_workers_that_process_the_same_job_count_nothing_twice(
    workers: list[Database],
) -> None:
    """One of them was wrongly considered dead. Each continues after the other's transaction."""
    job = await add_job(workers[0])

    async def advance(database: Database) -> None:
        async with database.write() as connection:
            locked = await jobs.lock(connection, job.id)
            assert locked is not None
            cursor = f"dlv_{1 + int((locked.cursor or 'dlv_0').removeprefix('dlv_'))}"
            await asyncio.sleep(0)  # lets the other worker try to lock the row
            await jobs.record_progress(
                connection, locked, cursor=cursor, in_hand=[], done=1, skipped=0, now=LATER
            )

    await asyncio.gather(*(advance(one) for one in workers[:2] * 8))
    moved = await stored(workers[0], job)
    assert (moved.cursor, moved.done) == ("dlv_16", 16)


async def test_unfinished_resend_jobs_are_found(database: Database) -> None:
    resending = await add_job(database, status="running")
    await add_job(database, action="pause")
    await add_job(database, status="done")
    await add_job(database, status="running", cancel_requested=True)  # it resends no more
    async with database.read() as connection:
        assert [one.id for one in await jobs.unfinished_resends(connection)] == [resending.id]


async def test_an_ended_job_does_not_change(database: Database) -> None:
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
    ids = [
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
        return [ids.index(row.id) for row in rows]

    assert await listed() == [3, 2, 1]
    assert await listed(after=ids[1]) == [0]
    assert await listed(TENANT) == [3, 0]
    assert await listed(TENANT, JobStatus.PENDING) == [0]
    assert await listed(status=JobStatus.DONE) == [3, 1]


# -- requests for the workflow --------------------------------------------------------------------


async def test_a_new_job_requests_its_workflow_until_it_is_marked(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        [request] = await JobWorkflowRequests().find(connection, limit=10)
        await JobWorkflowRequests().mark(connection, [request], now=LATER)
    assert request.workflow_id == f"job/{job.id}"
    assert request.argument == JobInput(job.id, "resend", JobProgress(total=1_200))
    assert request.summary == "action: resend 1,200 deliveries"
    async with database.read() as connection:
        assert await JobWorkflowRequests().find(connection, limit=10) == []
    assert (await stored(database, job)).workflow_started_at == LATER


async def test_a_job_that_is_cancelled_while_it_is_started_requests_its_workflow_again(
    database: Database,
) -> None:
    job = await add_job(database)
    async with database.read() as connection:
        seen = await JobWorkflowRequests().find(connection, limit=10)
    async with database.write() as connection:
        await jobs.request_cancel(connection, job.id, now=LATER)
        await JobWorkflowRequests().mark(connection, seen, now=LATER)

    async with database.write() as connection:
        [request] = await JobWorkflowRequests().find(connection, limit=10)
        assert request.workflow_id == f"job/{job.id}"
        await JobWorkflowRequests().mark(connection, [request], now=LATER)
        assert await JobWorkflowRequests().find(connection, limit=10) == []


async def test_an_ended_job_requests_no_workflow(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        await jobs.finish(connection, job.id, status=JobStatus.DONE, now=LATER)
        assert await JobWorkflowRequests().find(connection, limit=10) == []


@pytest.mark.parametrize(
    ("status", "moved", "woken", "stalled"),
    [
        ("running", -2, -2, True),
        ("pending", -2, -2, True),  # its workflow was lost before it began
        ("running", -0.5, -2, False),  # it has made progress
        ("running", -2, -0.5, False),  # it has just been woken
        ("done", -2, -2, False),
    ],
)
async def test_only_the_workflow_of_a_stalled_job_is_requested_again(
    database: Database, status: str, moved: float, woken: float, stalled: bool
) -> None:
    """`moved` and `woken` are hours from now."""
    hour = timedelta(hours=1)
    job = await add_job(
        database,
        status=status,
        updated_at=NOW + moved * hour,
        workflow_started_at=NOW + woken * hour,
    )
    async with database.write() as connection:
        count = await jobs.request_stalled_workflows(connection, unmoved_since=NOW - hour)
    assert count == int(stalled)
    async with database.read() as connection:
        requests = await JobWorkflowRequests().find(connection, limit=10)
    assert [one.workflow_id for one in requests] == [f"job/{job.id}"] * stalled
