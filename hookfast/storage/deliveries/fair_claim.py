"""Fair selection of outbox rows: tenants take turns, and so do the endpoints of each tenant.

A backlog delays only its owner. However many deliveries a tenant or an endpoint has waiting, the
next row of another is found with one index look-up per tenant and endpoint in between, never by
reading the backlog: the query skips through `ix_deliveries_outbox` (a "loose index scan",
https://wiki.postgresql.org/wiki/Loose_indexscan).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, zip_longest
from math import ceil
from operator import attrgetter
from typing import TypeVar

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.prepared import Prepared
from hookfast.storage.deliveries.outbox import PENDING, PendingDelivery, pending_from_row

_T = TypeVar("_T")

_TENANTS = 32
"""The most tenants of one turn."""
_ENDPOINTS = 32
"""The most endpoints of a tenant in one turn. The others follow in the next."""
_PASSES = 64
"""How many turns are tried in a row while no endpoint has a free row."""
_LEVELS = (Urgency.PERSON, Urgency.RETRY, Urgency.FIRST, Urgency.JOB)

_WAITING = "started_at IS NULL AND urgency = level.u"
_PAIRS = f"""
WITH RECURSIVE level(u) AS (
    SELECT urgency FROM deliveries
    WHERE started_at IS NULL AND urgency BETWEEN :most_urgent AND :least_urgent
    ORDER BY urgency LIMIT 1
),
tenant(t, n) AS (
    SELECT (SELECT tenant_id FROM deliveries WHERE {_WAITING}
            AND tenant_id > CASE level.u WHEN 1 THEN :after_1 WHEN 2 THEN :after_2
                                         WHEN 3 THEN :after_3 ELSE :after_4 END
            ORDER BY tenant_id LIMIT 1), 1
    FROM level
    UNION ALL
    SELECT (SELECT tenant_id FROM deliveries WHERE {_WAITING} AND tenant_id > tenant.t
            ORDER BY tenant_id LIMIT 1), n + 1
    FROM tenant, level WHERE t IS NOT NULL AND n < {_TENANTS}
),
pair(t, e, n) AS (
    SELECT t, COALESCE(
        (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
         AND endpoint_id > COALESCE((SELECT value ->> 2 FROM {{cursors}}
                                     WHERE value ->> 1 = t
                                     AND CAST(value ->> 0 AS integer) = level.u), '')
         ORDER BY endpoint_id LIMIT 1),
        /* no endpoint follows the one where the last turn ended: begin with the first again */
        (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
         ORDER BY endpoint_id LIMIT 1)), 1
    FROM tenant, level WHERE t IS NOT NULL
    UNION ALL
    SELECT t, (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
               AND endpoint_id > pair.e ORDER BY endpoint_id LIMIT 1), n + 1
    FROM pair, level WHERE e IS NOT NULL AND n < {_ENDPOINTS}
)
SELECT level.u, t, e,
       (SELECT urgency FROM deliveries WHERE started_at IS NULL AND urgency > level.u
        AND urgency <= :least_urgent ORDER BY urgency LIMIT 1)
FROM level LEFT JOIN pair ON e IS NOT NULL
"""  # noqa: S608 - contains no caller's text
_FREE = """
    FROM deliveries WHERE started_at IS NULL AND urgency = :urgency
    AND tenant_id = value ->> 0 AND endpoint_id = value ->> 1
    AND (leased_until IS NULL OR leased_until < :now)
    ORDER BY id LIMIT :most
"""
_FEW = """
    (SELECT * FROM deliveries WHERE started_at IS NULL
     AND (leased_until IS NULL OR leased_until < :now)
     ORDER BY urgency, tenant_id, endpoint_id, id LIMIT :most {lock}) AS deliveries
"""
_LOCK = "FOR UPDATE SKIP LOCKED"  # relays skip each other's rows


def _typed(rows: str) -> Prepared:
    clause: TextClause = text(
        f"SELECT {', '.join(map(str, PENDING))} FROM {rows}"  # noqa: S608 - no value
        " JOIN endpoints ON endpoints.id = deliveries.endpoint_id"
        " LEFT JOIN endpoint_health ON endpoint_health.endpoint_id = deliveries.endpoint_id"
    ).bindparams(bindparam("now", type_=UtcDateTime()))
    return Prepared(clause.columns(*PENDING))


@dataclass(frozen=True, slots=True)
class _Statements:
    """The endpoints that wait, the free rows of some endpoints, and the first free rows of all."""

    pairs: Prepared
    free: Prepared
    few: Prepared


_SQLITE = _Statements(
    Prepared(text(_PAIRS.format(cursors="json_each(:cursors)"))),
    _typed(f"json_each(:pairs) JOIN deliveries ON deliveries.id IN (SELECT id {_FREE})"),
    _typed(_FEW.format(lock="")),
)
_POSTGRESQL = _Statements(
    Prepared(
        text(_PAIRS.format(cursors="jsonb_array_elements(CAST(:cursors AS jsonb)) AS j(value)"))
    ),
    _typed(
        "jsonb_array_elements(CAST(:pairs AS jsonb)) AS j(value)"
        f" JOIN LATERAL (SELECT * {_FREE} {_LOCK}) AS deliveries ON true"
    ),
    _typed(_FEW.format(lock=_LOCK)),
)


@dataclass(frozen=True, slots=True)
class FreeRows:
    """Rows that may be leased, the most urgent first. `more`: more free rows may exist."""

    rows: list[PendingDelivery]
    more: bool


@dataclass(frozen=True, slots=True)
class _WaitingEndpoints:
    """The endpoints with waiting rows of one urgency, as (tenant, endpoint) in the order of their
    turns. `next_urgency` is the next urgency with waiting rows, None if no other has any."""

    urgency: int
    endpoints: list[tuple[str, str]]
    next_urgency: int | None

    def first(self, count: int) -> _WaitingEndpoints:
        """Return the first `count` endpoints, one of each tenant before a second of any."""
        if len(self.endpoints) <= count:
            return self
        tenants = [
            [(tenant, endpoint) for endpoint in endpoints]
            for tenant, endpoints in self.by_tenant.items()
        ]
        return replace(self, endpoints=list(islice(_in_turns(tenants), count)))

    @property
    def by_tenant(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for tenant, endpoint in self.endpoints:
            found[tenant].append(endpoint)
        return found


@dataclass(frozen=True, slots=True)
class _Served:
    """The rows of one turn. `skipped` are the endpoints left out because the limit was reached;
    `cut`: an endpoint may have more waiting rows than were read."""

    rows: list[PendingDelivery]
    skipped: set[str]
    cut: bool


def _no_bound(_: str) -> int:
    return 1_000_000


class FairClaim:
    """Finds free outbox rows, and remembers whose turn is next. One per relay."""

    def __init__(self) -> None:
        self._after_tenant: dict[int, str] = {}  # by urgency
        self._after_endpoint: dict[tuple[int, str], str] = {}  # by urgency and tenant

    async def find(
        self,
        connection: AsyncConnection,
        *,
        limit: int,
        now: datetime,
        most_urgent: int = Urgency.PERSON,
        least_urgent: int = Urgency.JOB,
        room: Callable[[str], int] = _no_bound,
    ) -> FreeRows:
        """Return at most `limit` free rows, locked until the transaction ends. `room` returns how
        many more new deliveries and jobs of an endpoint may be in progress."""
        rows: list[PendingDelivery] = []
        more = False
        level: int | None = most_urgent
        while level is not None and len(rows) < limit:
            passes = 0
            while True:
                passes += 1
                waiting = await self._next_endpoints(connection, level, least_urgent)
                if waiting is None:
                    return FreeRows(rows, more)
                missing = limit - len(rows)
                bound = room if waiting.urgency >= Urgency.FIRST else _no_bound
                served = await self._serve(connection, waiting, limit=missing, now=now, room=bound)
                rows += served.rows
                complete = self._advance(waiting, served)
                if served.rows or complete or passes == _PASSES:
                    more = more or served.cut or not complete
                    break
            level = waiting.next_urgency
        return FreeRows(rows, more or len(rows) >= limit)

    async def find_few(
        self,
        connection: AsyncConnection,
        *,
        limit: int,
        now: datetime,
        room: Callable[[str], int] = _no_bound,
    ) -> FreeRows | None:
        """Return all free rows as `find` does, but with one statement. None: there are `limit` or
        more, so that some may have to wait for their turn."""
        given = {"now": now, "most": limit}
        rows = await _statements(connection).few.rows(connection, given)
        if len(rows) >= limit:
            return None
        by_urgency: dict[int, dict[str, dict[str, list[PendingDelivery]]]] = {}
        for pending in sorted(map(pending_from_row, rows), key=_BY_OWNER):
            by_tenant = by_urgency.setdefault(pending.urgency, {})
            by_endpoint = by_tenant.setdefault(pending.tenant_id, {})
            by_endpoint.setdefault(pending.endpoint_id, []).append(pending)
        found: list[PendingDelivery] = []
        for urgency, by_tenant in by_urgency.items():
            bound = room if urgency >= Urgency.FIRST else _no_bound
            found += _in_turns(
                _in_turns(own[: max(0, bound(endpoint))] for endpoint, own in by_endpoint.items())
                for by_endpoint in by_tenant.values()
            )
        return FreeRows(found, more=False)

    async def _next_endpoints(
        self, connection: AsyncConnection, most_urgent: int, least_urgent: int
    ) -> _WaitingEndpoints | None:
        """Return the endpoints whose turn is next at the highest urgency with waiting rows, or
        None if no row waits."""
        cursors = [
            [urgency, tenant, endpoint]
            for (urgency, tenant), endpoint in self._after_endpoint.items()
            if urgency >= most_urgent
        ]
        found = await _statements(connection).pairs.rows(
            connection,
            {
                "most_urgent": most_urgent,
                "least_urgent": least_urgent,
                "cursors": json.dumps(cursors),
                **{f"after_{one}": self._after_tenant.get(one, "") for one in _LEVELS},
            },
        )
        if not found:
            return None
        endpoints = [(row[1], row[2]) for row in found if row[2] is not None]
        return _WaitingEndpoints(found[0][0], endpoints, found[0][3])

    async def _serve(
        self,
        connection: AsyncConnection,
        waiting: _WaitingEndpoints,
        *,
        limit: int,
        now: datetime,
        room: Callable[[str], int],
    ) -> _Served:
        """Read the free rows of these endpoints in turns, with an equal share per tenant."""
        first = waiting.first(limit)
        by_tenant = first.by_tenant
        by_quota: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        for tenant, endpoint in first.endpoints:
            share = ceil(limit / len(by_tenant) / len(by_tenant[tenant]))
            if (quota := min(share, room(endpoint))) > 0:
                by_quota[min(limit, _rounded_up(quota))].append((tenant, endpoint))
        found: dict[str, list[PendingDelivery]] = {}
        for most, pairs in by_quota.items():
            given = {
                "pairs": json.dumps(pairs),
                "urgency": waiting.urgency,
                "now": now,
                "most": most,
            }
            for row in await _statements(connection).free.rows(connection, given):
                pending = pending_from_row(row)
                found.setdefault(pending.endpoint_id, []).append(pending)
        tenants = [
            _in_turns(
                [
                    sorted(found.get(endpoint, ()), key=_id)[: room(endpoint)]
                    for endpoint in endpoints
                ]
            )
            for endpoints in by_tenant.values()
        ]
        rows = list(islice(_in_turns(tenants), limit))
        served = Counter(row.endpoint_id for row in rows)
        read = {endpoint for _, endpoint in first.endpoints}
        return _Served(
            rows,
            # endpoints that were not read, and endpoints whose rows no longer fit
            skipped={endpoint for _, endpoint in waiting.endpoints if endpoint not in read}
            | (found.keys() - served.keys()),
            cut=any(
                served[endpoint] == most and room(endpoint) > most
                for most, pairs in by_quota.items()
                for _, endpoint in pairs
            ),
        )

    def _advance(self, waiting: _WaitingEndpoints, served: _Served) -> bool:
        """Let the next turn begin with the skipped endpoints, or else after the last one of this
        turn. Return whether this turn covered every waiting endpoint of its urgency."""
        urgency, by_tenant, skipped = waiting.urgency, waiting.by_tenant, served.skipped
        had_a_turn = {row.tenant_id for row in served.rows}
        complete = _is_complete(self._after_tenant.pop(urgency, ""), list(by_tenant), _TENANTS)
        left_out = set()
        for tenant, endpoints in by_tenant.items():
            key = (urgency, tenant)
            began_after = self._after_endpoint.pop(key, "")
            complete = _is_complete(began_after, endpoints, _ENDPOINTS) and complete
            last = _last(began_after, endpoints, skipped, _ENDPOINTS)
            if last:
                self._after_endpoint[key] = last
            if tenant not in had_a_turn and not skipped.isdisjoint(endpoints):
                left_out.add(tenant)
        last = _last("", list(by_tenant), left_out, _TENANTS)
        if last:
            self._after_tenant[urgency] = last
        return complete and not skipped


def _is_complete(began_after: str, read: Sequence[str], most: int) -> bool:
    return not began_after and len(read) < most


def _last(before: str, read: Sequence[str], skipped: Collection[str], most: int) -> str:
    """Return the id after which the next turn begins, or "" to begin with the first."""
    for one in read:
        if one in skipped:
            return before
        before = one
    return before if len(read) == most else ""


def _statements(connection: AsyncConnection) -> _Statements:
    return _POSTGRESQL if connection.dialect.name == "postgresql" else _SQLITE


def _in_turns(queues: Iterable[Iterable[_T]]) -> Iterator[_T]:
    """Yield the first item of each queue, then the second of each, until all are empty."""
    return (one for turn in zip_longest(*queues) for one in turn if one is not None)


_id = attrgetter("delivery_id")
_BY_OWNER = attrgetter("urgency", "tenant_id", "endpoint_id", "delivery_id")


def _rounded_up(quota: int) -> int:
    """Return the next power of four: few different quotas need few statements, and at most four
    times the needed rows are read."""
    return next(power for power in (1, 4, 16, 64, 256, 1_024) if power >= quota)
