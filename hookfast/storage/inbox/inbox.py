"""The inbox: verified requests in, once each, as events.

It commits in groups. A request is answered once the transaction that holds it is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hookfast.clock import Clock, utc_now
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.database.group_commit import GroupCommit
from hookfast.storage.events.schema_checks import SchemaChecks
from hookfast.storage.events.schemas import SchemaCache
from hookfast.storage.inbox.inbox_batch import (
    Arrival,
    Facts,
    Taken,
    as_text,
    checks_of,
    look_up,
    take_in,
)

_MAX_BATCH = 100
_MAX_BATCH_BYTES = 16 * 1024 * 1024  # how long the others' writes may have to wait for one of ours
_THREAD_CHARACTERS = 65_536
"""Applying schemas to more data than this moves to a thread."""
_PATIENCE_SECONDS = 8.0
"""After so long a request is told to come again. GitHub waits for 10 s. Should it be committed all
the same, the repetition is a duplicate."""


class Inbox:
    """One per process. `take` returns once the arrival is committed."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        self._schemas = SchemaCache()
        self._checks = SchemaChecks()
        self._group = GroupCommit(
            self._take,
            name="inbox",
            most=_MAX_BATCH,
            size=lambda arrival: len(arrival.body),
            most_size=_MAX_BATCH_BYTES,
            patience=_PATIENCE_SECONDS,
        )

    async def take(self, arrival: Arrival) -> Taken:
        """Commit a request, its event and the event's deliveries, unless it came before.

        Raises Unavailable when the database is too busy, and the database's errors. Whether it was
        committed is then unknown, and whoever sends it again finds out.
        """
        taken = await self._group.add(arrival)
        return await self._take_alone(arrival) if taken is None else taken

    async def close(self) -> None:
        """Wait for what is being taken in."""
        await self._group.close()

    async def _take(self, arrivals: Sequence[Arrival]) -> list[Taken | None]:
        """What became of each; None for one that is to be taken in alone, and was not now."""
        facts = await self._look_up(arrivals)
        faults = await self._checks.together(
            [checks_of(facts, one) for one in facts.arrivals],
            short=sum(len(one.data) for one in arrivals) <= _THREAD_CHARACTERS,
        )
        ready = [place for place, found in enumerate(faults) if found is not None]
        checked = replace(facts, arrivals=[facts.arrivals[place] for place in ready])
        found_in = [as_text(found) for found in faults if found is not None]
        taken = iter(await self._take_checked(checked, found_in) if ready else ())
        return [None if found is None else next(taken) for found in faults]

    async def _take_alone(self, arrival: Arrival) -> Taken:
        facts = await self._look_up([arrival])
        faults = await self._checks.alone(checks_of(facts, facts.arrivals[0]))
        [taken] = await self._take_checked(facts, [as_text(faults)])
        return taken

    async def _look_up(self, arrivals: Sequence[Arrival]) -> Facts:
        async with self._database.read() as connection:
            return await look_up(connection, arrivals, schemas=self._schemas)

    async def _take_checked(self, facts: Facts, faults: Sequence[str | None]) -> list[Taken]:
        async with self._database.write() as connection:
            taken = await take_in(connection, facts, faults, now=self._clock())
        if any(one.event_id is not None and not one.duplicate for one in taken):
            self._doorbell.ring()
        return taken
