"""The inbox: stores verified requests, and emits an event for each that is not a duplicate.

It commits in groups. A request is answered once the transaction with it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hookfast.clock import Clock, utc_now
from hookfast.errors import TooManyRequests
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.database.group_commit import GroupCommit
from hookfast.storage.emitting.event_quotas import EventQuotas
from hookfast.storage.events.filtering import Filtering
from hookfast.storage.events.schema_checks import SchemaChecks
from hookfast.storage.events.schemas import SchemaCache
from hookfast.storage.inbox.inbox_batch import (
    Arrival,
    BeyondQuota,
    InboxResult,
    Lookups,
    candidates,
    describe_faults,
    look_up,
    schema_checks,
    store_arrivals,
)

_MAX_BATCH = 100
_MAX_BATCH_BYTES = 16 * 1024 * 1024  # limits how long other writers wait for one of our batches
_THREAD_CHARACTERS = 65_536
"""With more data than this, schemas are checked in a thread."""
_PATIENCE_SECONDS = 8.0
"""After this long a sender is asked to retry. GitHub waits for 10 s. If the request was committed
after all, the retry is a duplicate."""

_Result: TypeAlias = InboxResult | TooManyRequests
"""An arrival's result, or why it was not stored."""


class Inbox:
    """Stores verified requests in groups; one per process."""

    def __init__(
        self,
        database: Database,
        doorbell: Doorbell,
        *,
        quotas: EventQuotas,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._doorbell = doorbell
        self._quotas = quotas
        self._clock = clock
        self._schemas = SchemaCache()
        self._checks = SchemaChecks()
        self._filtering = Filtering()
        self._group = GroupCommit(
            self._store_group,
            name="inbox",
            most=_MAX_BATCH,
            size=lambda arrival: len(arrival.body),
            most_size=_MAX_BATCH_BYTES,
            patience=_PATIENCE_SECONDS,
        )

    async def store(self, arrival: Arrival) -> InboxResult:
        """Commit a request with its event and deliveries, unless it is a duplicate, and return the
        result.

        Raises TooManyRequests when the tenant's quota of events is used up: nothing is stored.
        Raises Unavailable when the database is too busy, and the database's errors. Whether the
        request was committed is then unknown; a retry finds out.
        """
        result = await self._group.add(arrival)
        if result is None:
            result = await self._store_alone(arrival)
        if isinstance(result, TooManyRequests):
            raise result
        return result

    async def close(self) -> None:
        """Wait for the requests that are being stored."""
        await self._group.close()

    async def _store_group(self, arrivals: Sequence[Arrival]) -> list[_Result | None]:
        """Return one result per arrival. None: too slow to check, or to filter, in this group;
        store it alone."""
        lookups = await self._look_up(arrivals)
        faults = await self._checks.together(
            [schema_checks(lookups, one) for one in lookups.arrivals],
            short=sum(len(one.data) for one in arrivals) <= _THREAD_CHARACTERS,
        )
        filtered = await self._filtering.together(
            [candidates(lookups, one) for one in lookups.arrivals]
        )
        ready = [
            None if found is None or subscribers is None else (one, found, subscribers)
            for one, found, subscribers in zip(lookups.arrivals, faults, filtered, strict=True)
        ]
        checked = [one for one in ready if one is not None]
        arrivals = [replace(one, subscribers=chosen) for one, _, [chosen] in checked]
        errors = [describe_faults(found) for _, found, _ in checked]
        lookups = replace(lookups, arrivals=arrivals)
        results = iter(await self._store_checked(lookups, errors) if checked else ())
        return [None if one is None else next(results) for one in ready]

    async def _store_alone(self, arrival: Arrival) -> _Result:
        lookups = await self._look_up([arrival])
        [looked_up] = lookups.arrivals
        faults = await self._checks.alone(schema_checks(lookups, looked_up))
        [subscribers] = await self._filtering.alone(candidates(lookups, looked_up))
        lookups = replace(lookups, arrivals=[replace(looked_up, subscribers=subscribers)])
        [result] = await self._store_checked(lookups, [describe_faults(faults)])
        return result

    async def _look_up(self, arrivals: Sequence[Arrival]) -> Lookups:
        async with self._database.read() as connection:
            return await look_up(connection, arrivals, schemas=self._schemas, quotas=self._quotas)

    async def _store_checked(self, lookups: Lookups, errors: Sequence[str | None]) -> list[_Result]:
        try:
            async with self._database.write() as connection:
                stored = await store_arrivals(connection, lookups, errors, now=self._clock())
        except BeyondQuota as beyond:
            return await self._store_others(lookups, errors, beyond.errors)
        if any(one.event_id is not None and not one.duplicate for one in stored):
            self._doorbell.ring()
        return [*stored]

    async def _store_others(
        self,
        lookups: Lookups,
        errors: Sequence[str | None],
        rejected: Mapping[int, TooManyRequests],
    ) -> list[_Result]:
        """Store the arrivals that are not rejected. Returns one result for each of all arrivals."""
        others = [index for index in range(len(lookups.arrivals)) if index not in rejected]
        if not others:
            return [rejected[index] for index in range(len(lookups.arrivals))]
        left = replace(lookups, arrivals=[lookups.arrivals[index] for index in others])
        results = await self._store_checked(left, [errors[index] for index in others])
        by_index = {**rejected, **dict(zip(others, results, strict=True))}
        return [by_index[index] for index in range(len(lookups.arrivals))]
