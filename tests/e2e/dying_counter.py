"""Processes that kill themselves, with SIGKILL, before each statement that writes, before each
commit, and right after the last commit, of all that writes figures.

    python -m tests.e2e.dying_counter DATABASE_URL

For each of `OPERATIONS`, forked children do the same work one after the other. The first dies
before its first step, the next before its second, and the last one ends well. After each, the
parent prints a line of JSON (`Look`). Forks save the time of imports, which is longer than
everything else.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypedDict

import structlog
from sqlalchemy import event, func, select, text
from sqlalchemy.engine import Engine

from bench import recount
from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.process import freeze_startup
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.retention import daily_dead_letters
from hookfast.storage.tables import Attempt, Delivery
from tests.e2e.breakpoints import kill_process
from tests.integration.storage.deliveries.ordered import emit, seed_ordered
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, ended
from tests.support import known_types, one_dialect
from tests.support.waiting import eventually

FIRST: Final = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
_RECORDS: list[AttemptRecord] = []


async def prepare(database: Database) -> None:
    """Emit to several lanes, and make the first attempts: one arrives, one is to be retried, one is
    a dead letter, and the endpoint of all is gone."""
    await seed_ordered(database)
    delivered, retried, dead, gone, _ = await emit(database, "a", "b", "c", "d", "a")
    answers = {delivered: 200, retried: 503, dead: 503, gone: 410}
    for one, status in answers.items():
        fact = ended(FIRST, status, utc_now(), plan=NO_RETRIES if one == dead else MINUTES)
        _RECORDS.append(AttemptRecord(delivery_id=one, ended=fact))


async def record(database: Database) -> None:
    """Record the attempts together, as a worker that does not know whether it has done so."""
    recorder = Recorder(database)
    await asyncio.gather(*map(recorder.record, _RECORDS))


async def emit_more(database: Database) -> None:
    """Emit to the endpoint, which is disabled."""
    await emit(database, "e", None)


async def fold(database: Database) -> None:
    """Add the entries up."""
    await folding.fold(database)


async def expire(database: Database) -> None:
    """Delete the oldest dead letter."""
    async with database.write() as connection:
        later = utc_now() + timedelta(hours=1)
        await daily_dead_letters.expire(connection, finished_before=later, limit=1)


Operation = Callable[[Database], Awaitable[None]]
OPERATIONS: Final[dict[str, Operation]] = {
    "record": record,
    "record again": record,
    "fold": fold,
    "emit": emit_more,
    "fold again": fold,
    "expire": expire,
}


class Look(TypedDict):
    """What a child left. `signal` ended it, or 0; `differences` are those of `recount`, with the
    kind of each figure; `deliveries` and `attempts` are the numbers of rows."""

    operation: str
    signal: int
    differences: list[tuple[str, int]]
    deliveries: int
    attempts: int


class Death:
    """Kills the process at a step, counted from 0."""

    def __init__(self, step: int) -> None:
        self._left = step
        event.listen(Engine, "before_cursor_execute", self._execute)
        event.listen(Engine, "commit", self.reach)

    def reach(self, *_: Any) -> None:
        """Reach the next step."""
        if self._left == 0:
            kill_process()
        self._left -= 1

    def _execute(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith(("SELECT", "SET")):
            self.reach()


async def do(url: str, operation: Operation, death: Death) -> None:
    async with Database(url) as database:
        await operation(database)
        death.reach()  # it is committed, and nobody knows


async def look(url: str, operation: str, signal: int) -> Look:
    """Compare figures and rows, once the database has noticed the death."""
    async with Database(url) as database:
        if database.kind == "postgresql":
            await eventually(partial(_alone, database))
        async with database.read() as connection:
            deliveries, attempts = [
                await connection.scalar(select(func.count()).select_from(table.__table__)) or 0
                for table in (Delivery, Attempt)
            ]
        differences = await recount.differences(database, ends=True)
    return Look(
        operation=operation,
        signal=signal,
        differences=[(key.kind, number) for key, number in differences.items()],
        deliveries=deliveries,
        attempts=attempts,
    )


async def _alone(database: Database) -> bool:
    """Whether PostgreSQL has ended the session of the child."""
    others = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'hookfast %' AND pid <> pg_backend_pid()"
    )
    async with database.read() as connection:
        return not await connection.scalar(others)


async def _prepare(url: str) -> None:
    async with Database(url) as database:
        await prepare(database)


def main(url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    one_dialect.use()
    known_types.use()
    asyncio.run(_prepare(url))
    freeze_startup()  # a collection would copy the pages that a child shares with its parent
    for name, operation in OPERATIONS.items():
        for step in itertools.count():
            child = os.fork()
            if child == 0:
                asyncio.run(do(url, operation, Death(step)))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            signal = os.WTERMSIG(status)
            print(json.dumps(asyncio.run(look(url, name, signal))), flush=True)
            if not signal:
                assert os.WEXITSTATUS(status) == 0, name
                break


if __name__ == "__main__":
    main(sys.argv[1])
