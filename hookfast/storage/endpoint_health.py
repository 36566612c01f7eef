"""How an endpoint fares: its consecutive failures, counted where its attempts are recorded.

A success resets the count, and writes nothing when it is clean already: so the row of a healthy
endpoint, however busy, is never one that every worker waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Executable, Table, bindparam, func, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.engine import Kind
from hookfast.storage.tables import EndpointHealth

_HEALTH: Table = EndpointHealth.__table__


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one attempt says about its endpoint; `at` is when it began."""

    endpoint_id: str
    at: datetime
    succeeded: bool
    error: str | None


async def count(connection: AsyncConnection, results: Iterable[Result], *, kind: Kind) -> None:
    """Count these results, in the order the attempts began."""
    by_endpoint: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.at):
        by_endpoint.setdefault(result.endpoint_id, []).append(result)
    # in the order of their ids: two processes that lock the same rows lock them in one order
    endpoint_ids = sorted(by_endpoint)
    healed = {
        endpoint_id: successes[-1].at
        for endpoint_id in endpoint_ids
        if (successes := [one for one in by_endpoint[endpoint_id] if one.succeeded])
    }
    if healed:
        at = max(healed.values())
        await connection.execute(_RESET, {"endpoint_ids": list(healed), "at": at})
    failing = [
        _failure_row(endpoint_id, trailing)
        for endpoint_id in endpoint_ids
        if (trailing := _trailing_failures(by_endpoint[endpoint_id]))
    ]
    if failing:
        await connection.execute(_raise_count(kind), failing)


_RESET = (
    update(_HEALTH)
    .where(
        _HEALTH.c.endpoint_id.in_(bindparam("endpoint_ids", expanding=True)),
        _HEALTH.c.consecutive_failures > 0,
    )
    .values(
        consecutive_failures=0,
        first_failure_at=None,
        last_success_at=bindparam("at", type_=_HEALTH.c.last_success_at.type),
    )
)


@lru_cache
def _raise_count(kind: Kind) -> Executable:
    insert = (postgresql_insert if kind == "postgresql" else sqlite_insert)(_HEALTH)
    return insert.on_conflict_do_update(
        index_elements=["endpoint_id"],
        set_={
            "consecutive_failures": _HEALTH.c.consecutive_failures
            + insert.excluded.consecutive_failures,
            "first_failure_at": func.coalesce(
                _HEALTH.c.first_failure_at, insert.excluded.first_failure_at
            ),
            "last_failure_at": insert.excluded.last_failure_at,
            "last_error": insert.excluded.last_error,
        },
    )


def _failure_row(endpoint_id: str, failures: Sequence[Result]) -> dict[str, Any]:
    return {
        "endpoint_id": endpoint_id,
        "consecutive_failures": len(failures),
        "first_failure_at": failures[0].at,
        "last_failure_at": failures[-1].at,
        "last_error": failures[-1].error,
    }


def _trailing_failures(results: Sequence[Result]) -> Sequence[Result]:
    """The failures after the last success."""
    for index in range(len(results) - 1, -1, -1):
        if results[index].succeeded:
            return results[index + 1 :]
    return results
