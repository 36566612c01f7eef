"""Jobs as rows: what they choose, how they move on, and when they ask for their workflow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hookfast.ids import new_id
from hookfast.job import JobOrder, JobProgress, JobStatus
from hookfast.outcome import DeliveryStatus
from hookfast.storage import chosen_deliveries, jobs
from hookfast.storage.chosen_deliveries import ChosenDeliveries
from hookfast.storage.control_tables import Job
from hookfast.storage.engine import Database
from hookfast.storage.jobs import AskingJobs
from hookfast.storage.tables import Delivery

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
                "reopened": 0,
                "created_at": at,
                "updated_at": at,
                "finished_at": None,
                "started_at": at,
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


async def all_chunks(database: Database, chosen: ChosenDeliveries, *, limit: int) -> list[str]:
    """Everything chosen, read a chunk at a time."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        async with database.read() as connection:
            ids = await chosen_deliveries.next_ids(connection, chosen, after=after, limit=limit)
        if not ids:
            return found
        assert len(ids) <= limit
        found += ids


# -- what is chosen


FULL = ChosenDeliveries(
    tenant_id=TENANT,
    statuses=(DEAD, DeliveryStatus.GONE),
    since=NOW,
    finished_until=LATER,
    ids=("dlv_1", "dlv_2"),
    up_to="dlv_9",
)


@pytest.mark.parametrize("chosen", [ChosenDeliveries(), FULL, ChosenDeliveries(up_to="")])
async def test_a_choice_is_the_same_after_it_was_stored(
    database: Database, chosen: ChosenDeliveries
) -> None:
    job = await add_job(database, chosen=chosen.document())
    assert ChosenDeliveries.of((await stored(database, job)).chosen) == chosen


# What is chosen, and which of the six deliveries below that is.
CHOICES = [
    (ChosenDeliveries(), [0, 1, 2, 3, 4, 5]),
    (ChosenDeliveries(statuses=(DEAD,)), [0, 3]),
    (ChosenDeliveries(statuses=(DEAD, DeliveryStatus.GONE)), [0, 1, 3]),
    (ChosenDeliveries(statuses=(DEAD, DeliveryStatus.DELIVERED)), [0, 2, 3]),
    (ChosenDeliveries(statuses=(DeliveryStatus.PAUSED, DeliveryStatus.PENDING)), [4, 5]),
    (ChosenDeliveries(statuses=(DeliveryStatus.HELD,)), []),
    (ChosenDeliveries(statuses=(DEAD, DeliveryStatus.GONE), reason="retries_exhausted"), [0]),
    (ChosenDeliveries(tenant_id=OTHER), [3, 5]),
    (ChosenDeliveries(tenant_id=OTHER, statuses=(DEAD, DeliveryStatus.PAUSED)), [3, 5]),
    (ChosenDeliveries(endpoint_id="ep_2"), [1, 3]),
    (ChosenDeliveries(endpoint_id="ep_2", tenant_id=TENANT, statuses=(DEAD,)), []),
    (ChosenDeliveries(subscription_id="sub_2"), [3]),
    (ChosenDeliveries(subscription_id="sub_2", statuses=(DEAD, DeliveryStatus.HELD)), [3]),
    (ChosenDeliveries(event_id="evt_2"), [2]),
    (ChosenDeliveries(event_id="evt_2", statuses=(DEAD, DeliveryStatus.GONE)), []),
    (ChosenDeliveries(event_type="order.refund.made"), [4]),
    (ChosenDeliveries(since=NOW + timedelta(seconds=4)), [4, 5]),
    (ChosenDeliveries(until=NOW + timedelta(seconds=1)), [0]),
    (ChosenDeliveries(finished_since=LATER), [1]),
    (ChosenDeliveries(finished_until=LATER), [0]),
]


@pytest.mark.parametrize(("chosen", "expected"), CHOICES)
async def test_what_is_chosen_is_counted_and_read_oldest_first(
    database: Database, chosen: ChosenDeliveries, expected: list[int]
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
        {"status": "pending", "event_type": "order.refund.made"},
        {"status": "paused", "tenant_id": OTHER},
    )
    for limit in (1, 2, 50):
        assert await all_chunks(database, chosen, limit=limit) == [ids[n] for n in expected]
    async with database.read() as connection:
        counted = await chosen_deliveries.count(connection, chosen)
    assert sum(counted.values()) == len(expected)
    assert all(counted.values())


async def test_a_count_says_how_many_there_are_in_each_status(database: Database) -> None:
    await add_deliveries(database, {}, {}, {"status": "gone"}, {"status": "delivered"})
    async with database.read() as connection:
        some = ChosenDeliveries(statuses=(DEAD, DeliveryStatus.GONE, DeliveryStatus.HELD))
        assert await chosen_deliveries.count(connection, some) == {"dead": 2, "gone": 1}
        everything = await chosen_deliveries.count(connection, ChosenDeliveries())
    assert everything == {"delivered": 1, "dead": 2, "gone": 1}


async def test_listed_ids_are_chosen_where_the_rest_of_the_filter_fits(database: Database) -> None:
    ids = await add_deliveries(database, {}, {"tenant_id": OTHER}, {"status": "held"}, {})
    chosen = ChosenDeliveries(ids=(ids[2], ids[1], ids[0], "dlv_unknown"))
    assert await all_chunks(database, chosen, limit=2) == ids[:3]
    assert await all_chunks(database, replace(chosen, tenant_id=TENANT), limit=2) == [
        ids[0],
        ids[2],
    ]
    assert await all_chunks(database, replace(chosen, statuses=(DEAD,)), limit=2) == ids[:2]


async def test_deliveries_that_come_later_do_not_join(database: Database) -> None:
    async with database.read() as connection:
        nothing = await chosen_deliveries.newest_id(connection)
    earlier = await add_deliveries(database, {}, {"status": "delivered"})
    async with database.read() as connection:
        newest = await chosen_deliveries.newest_id(connection)
    late = {"id": new_id("dlv", NOW + timedelta(hours=1))}
    await add_deliveries(database, late)

    for chosen in (ChosenDeliveries(), ChosenDeliveries(statuses=tuple(DeliveryStatus))):
        assert await all_chunks(database, replace(chosen, up_to=newest), limit=50) == earlier
        assert await all_chunks(database, replace(chosen, up_to=nothing), limit=50) == []


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
    for cursor in ("dlv_1", "dlv_2"):
        async with database.write() as connection:
            moved = await jobs.progress(
                connection, job, cursor=cursor, done=3, skipped=2, failed=1, now=LATER
            )
        assert moved is not None
        job = moved
    assert jobs.progress_of(job) == JobProgress(JobStatus.PENDING, 1_200, 6, 4, 2)
    assert await stored(database, job) == job
    assert job.cursor == "dlv_2"


async def test_a_worker_that_was_overtaken_counts_nothing(database: Database) -> None:
    seen = await add_job(database)
    for _ in range(2):  # the second is the one that was only thought dead
        async with database.write() as connection:
            moved = await jobs.progress(
                connection, seen, cursor="dlv_1", done=5, skipped=0, failed=0, now=LATER
            )
    assert moved is None
    assert (await stored(database, seen)).done == 5


async def test_what_a_job_has_in_hand_is_stored_before_it_is_counted(database: Database) -> None:
    seen = await add_job(database)
    async with database.write() as connection:
        taken = await jobs.take(connection, seen, ["dlv_1", "dlv_2"])
    assert taken is not None
    assert taken.in_hand == ["dlv_1", "dlv_2"]
    assert await stored(database, seen) == taken
    async with database.write() as connection:
        moved = await jobs.progress(
            connection, taken, cursor="dlv_2", done=2, skipped=0, failed=0, now=LATER
        )
        assert moved is not None
        assert await jobs.take(connection, seen, ["dlv_1"]) is None, "it was overtaken"
        assert await jobs.take(connection, moved, ["dlv_3"]) is not None


async def test_a_job_that_has_ended_stays_as_it_is(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        ended = await jobs.finish(connection, job.id, status=JobStatus.CANCELLED, now=NOW)
    assert ended is not None
    assert (ended.status, ended.finished_at) == ("cancelled", NOW)
    async with database.write() as connection:
        assert await jobs.finish(connection, job.id, status=JobStatus.DONE, now=LATER) is None
        assert await jobs.request_cancel(connection, job.id, now=LATER) is None
        moved = await jobs.progress(
            connection, job, cursor="dlv_1", done=1, skipped=0, failed=0, now=LATER
        )
        assert moved is None
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
        [wanted] = await AskingJobs().wanted(connection, limit=10)
        await AskingJobs().mark(connection, [wanted], now=LATER)
    assert wanted.workflow_id == f"job/{job.id}"
    assert wanted.argument == JobOrder(job.id, "resend", JobProgress(total=1_200))
    assert wanted.summary == "action: resend 1,200 deliveries"
    async with database.read() as connection:
        assert await AskingJobs().wanted(connection, limit=10) == []
    assert (await stored(database, job)).conducted_at == LATER


async def test_a_job_that_is_cancelled_while_it_is_started_still_asks(database: Database) -> None:
    job = await add_job(database)
    async with database.read() as connection:
        seen = await AskingJobs().wanted(connection, limit=10)
    async with database.write() as connection:
        await jobs.request_cancel(connection, job.id, now=LATER)
        await AskingJobs().mark(connection, seen, now=LATER)

    async with database.write() as connection:
        [wanted] = await AskingJobs().wanted(connection, limit=10)
        assert wanted.workflow_id == f"job/{job.id}"
        await AskingJobs().mark(connection, [wanted], now=LATER)
        assert await AskingJobs().wanted(connection, limit=10) == []


async def test_a_job_that_has_ended_asks_for_nothing(database: Database) -> None:
    job = await add_job(database)
    async with database.write() as connection:
        await jobs.finish(connection, job.id, status=JobStatus.DONE, now=LATER)
        assert await AskingJobs().wanted(connection, limit=10) == []


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
        database, status=status, updated_at=NOW + moved * hour, conducted_at=NOW + told * hour
    )
    async with database.write() as connection:
        assert await jobs.ask_again(connection, unmoved_since=NOW - hour) == int(asks)
    async with database.read() as connection:
        wanted = await AskingJobs().wanted(connection, limit=10)
    assert [one.workflow_id for one in wanted] == [f"job/{job.id}"] * asks
