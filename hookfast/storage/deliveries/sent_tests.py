"""Statements on `sent_tests`: the newest tests of each endpoint, with the answers to them.

Nothing else reads these rows: a test is not part of any count, feed, circuit or quota.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Select, Table, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.outcome import Result
from hookfast.ids import first_id_at
from hookfast.storage.database.keyset import created_between, narrowest_first, newest_first
from hookfast.storage.database.rows import fetch_one
from hookfast.storage.deliveries import answers
from hookfast.storage.tables import SentTest

_TESTS: Table = SentTest.__table__
_C = _TESTS.c

KEPT: Final = timedelta(days=7)
"""How long a test is kept."""
KEPT_PER_ENDPOINT: Final = 50
KEPT_PER_TENANT: Final = 1_000
"""Most tests of one endpoint, and of one tenant, that are kept: with bodies of the largest size,
some 13 and 260 MB. So a tenant's are few enough to be deleted in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTestFilter:
    """A filter of tests; all given conditions must hold. `since` (inclusive) and `until`
    (exclusive) refer to the time at which the test was sent."""

    endpoint_id: str | None = None
    tenant_id: str | None = None
    event_type: str | None = None
    answer: AnswerFilter | None = None
    succeeded: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTestSummary:
    """A test as lists show it: without the body, the headers and the text of the answer."""

    id: str
    tenant_id: str
    endpoint_id: str
    event_type: str
    payload: str
    started_at: datetime
    duration_ms: float
    result: str
    status_code: int | None
    error: str | None


_SUMMARY = [_C[field.name] for field in fields(SentTestSummary)]


async def add(connection: AsyncConnection, test: SentTest) -> None:
    """Store a test, and delete the oldest of its endpoint and of its tenant that are too many. Two
    transactions at the same time do not see each other's test; the next one deletes what they left.
    The caller has the endpoint locked, so that it is not deleted meanwhile."""
    await connection.execute(insert(_TESTS).values(test.model_dump()))
    for column, most in (("endpoint_id", KEPT_PER_ENDPOINT), ("tenant_id", KEPT_PER_TENANT)):
        # skips those that another transaction is deleting, so that neither waits for the other
        beyond = beyond_newest(column, getattr(test, column), most=most)
        old = beyond.with_for_update(skip_locked=True)
        await connection.execute(delete(_TESTS).where(_C.id.in_(old)))


def beyond_newest(column: str, value: str, *, most: int) -> Select[str]:
    """Select the tests with this value, except for the newest `most`."""
    its = _C[column] == value
    newest = select(_C.id).where(its).order_by(_C.id.desc())
    first_beyond = newest.offset(most).limit(1).scalar_subquery()
    return select(_C.id).where(its, _C.id <= first_beyond)


async def get(connection: AsyncConnection, test_id: str) -> SentTest | None:
    """Return the test with this id."""
    return await fetch_one(connection, select(_TESTS).where(_C.id == test_id), SentTest)


async def list_page(
    connection: AsyncConnection, chosen: SentTestFilter, *, after: str | None, limit: int
) -> list[SentTestSummary]:
    """Return the newest `limit` tests that match, beyond the id `after`."""
    statement = select(*_SUMMARY).where(
        *created_between(_C.id, "dlv", chosen.since, chosen.until),
        *narrowest_first(_TESTS, chosen, ("endpoint_id", "tenant_id", "event_type")),
    )
    if chosen.answer is not None:
        statement = statement.where(answers.matches(chosen.answer, _C.result, _C.status_code))
    if chosen.succeeded is not None:
        is_success = _C.result == Result.SUCCESS.value
        statement = statement.where(is_success if chosen.succeeded else ~is_success)
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return [SentTestSummary(**row) for row in (await connection.execute(page)).mappings()]


async def remove_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> None:
    """Delete the tests of an endpoint."""
    await connection.execute(delete(_TESTS).where(_C.endpoint_id == endpoint_id))


async def remove_of_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Delete the tests of a tenant's endpoints."""
    await connection.execute(delete(_TESTS).where(_C.tenant_id == tenant_id))


async def expire(connection: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Delete the oldest `limit` tests from before this time, and return how many were deleted."""
    old = select(_C.id).where(_C.id < first_id_at("dlv", before)).order_by(_C.id).limit(limit)
    return (await connection.execute(delete(_TESTS).where(_C.id.in_(old)))).rowcount
