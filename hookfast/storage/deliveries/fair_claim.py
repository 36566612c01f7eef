"""Which rows of the outbox come next: tenants in turns, and in each the endpoints in turns.

A backlog is its owner's. However many deliveries a tenant or an endpoint has waiting, the next of
another is found with as many index look-ups as there are tenants and endpoints asked in between,
never by walking over the backlog: `ix_deliveries_outbox` is skipped through (a "loose index scan",
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
from typing import Any, TypeVar

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.deliveries.outbox import PENDING, PendingDelivery, pending

_T = TypeVar("_T")

_TENANTS = 32
"""Asked in one turn."""
_ENDPOINTS = 32
"""Of each, asked in one turn; the others in the next."""
_PASSES = 64
"""As often the next are asked, where nobody who was asked has anything free."""
_LEVELS = (Urgency.PERSON, Urgency.RETRY, Urgency.FIRST, Urgency.JOB)

_WAITING = "started_at IS NULL AND urgency = level.u"
_LANES = f"""
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
lane(t, e, n) AS (
    SELECT t, COALESCE(
        (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
         AND endpoint_id > COALESCE((SELECT value ->> 1 FROM {{cursors}} WHERE value ->> 0 = t), '')
         ORDER BY endpoint_id LIMIT 1),
        -- nobody waits after the one where the last turn ended: it begins with the first again
        (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
         ORDER BY endpoint_id LIMIT 1)), 1
    FROM tenant, level WHERE t IS NOT NULL
    UNION ALL
    SELECT t, (SELECT endpoint_id FROM deliveries WHERE {_WAITING} AND tenant_id = t
               AND endpoint_id > lane.e ORDER BY endpoint_id LIMIT 1), n + 1
    FROM lane, level WHERE e IS NOT NULL AND n < {_ENDPOINTS}
)
SELECT level.u, t, e,
       (SELECT urgency FROM deliveries WHERE started_at IS NULL AND urgency > level.u
        AND urgency <= :least_urgent ORDER BY urgency LIMIT 1)
FROM level LEFT JOIN lane ON e IS NOT NULL
"""  # noqa: S608 - nothing of a caller's is in it
_FREE = """
    FROM deliveries WHERE started_at IS NULL AND urgency = :urgency
    AND tenant_id = value ->> 0 AND endpoint_id = value ->> 1
    AND (leased_until IS NULL OR leased_until < :now)
    ORDER BY id LIMIT :most
"""
_COLUMNS = ", ".join(
    f"d.{column.name if column.name != 'delivery_id' else 'id AS delivery_id'}"
    for column in PENDING
)


def _typed(statement: str) -> Any:
    clause: TextClause = text(statement).bindparams(bindparam("now", type_=UtcDateTime()))
    return clause.columns(*PENDING)


_SQLITE = (
    text(_LANES.format(cursors="json_each(:cursors)")),
    _typed(
        f"SELECT {_COLUMNS} FROM json_each(:lanes)"  # noqa: S608
        f" JOIN deliveries d ON d.id IN (SELECT id {_FREE})"
    ),
)
_POSTGRESQL = (
    text(_LANES.format(cursors="jsonb_array_elements(CAST(:cursors AS jsonb)) AS j(value)")),
    _typed(
        f"SELECT {_COLUMNS} FROM jsonb_array_elements(CAST(:lanes AS jsonb)) AS j(value)"  # noqa: S608
        # twins pass each other by
        f" JOIN LATERAL (SELECT * {_FREE} FOR UPDATE SKIP LOCKED) d ON true"
    ),
)


@dataclass(frozen=True, slots=True)
class Free:
    """What may be leased, the most urgent first. `more`: there may be more than was asked for."""

    rows: list[PendingDelivery]
    more: bool


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Who waits at one urgency: endpoints, each with its tenant, in the order of their turns.
    `next_urgency` is the next one at which somebody waits; None: there is none."""

    urgency: int
    waiting: list[tuple[str, str]]
    next_urgency: int | None

    @property
    def endpoints(self) -> frozenset[str]:
        return frozenset(endpoint for _, endpoint in self.waiting)

    def first(self, count: int) -> _Lanes:
        """So many of them, one of each tenant before a second of any."""
        if len(self.waiting) <= count:
            return self
        tenants = [
            [(tenant, endpoint) for endpoint in endpoints]
            for tenant, endpoints in self.by_tenant.items()
        ]
        return replace(self, waiting=list(islice(_in_turns(tenants), count)))

    @property
    def by_tenant(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for tenant, endpoint in self.waiting:
            found[tenant].append(endpoint)
        return found


@dataclass(frozen=True, slots=True)
class _Served:
    """`skipped` are the endpoints that were left out for want of room in the limit; `cut`: an
    endpoint may have more waiting than was read."""

    rows: list[PendingDelivery]
    skipped: set[str]
    cut: bool


def _no_bound(_: str) -> int:
    return 1_000_000


class FairClaim:
    """Remembers whose turn it is. One per relay."""

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
    ) -> Free:
        """At most `limit` free rows, locked until the transaction ends. `room` says how many more
        new deliveries and jobs an endpoint may have in hand."""
        rows: list[PendingDelivery] = []
        more = False
        level: int | None = most_urgent
        while level is not None and len(rows) < limit:
            passes = 0
            while True:
                passes += 1
                lanes = await self._lanes(connection, level, least_urgent)
                if lanes is None:
                    return Free(rows, more)
                asked = limit - len(rows)
                bound = room if lanes.urgency >= Urgency.FIRST else _no_bound
                served = await self._rows(connection, lanes, limit=asked, now=now, room=bound)
                rows += served.rows
                whole = self._pass_on(lanes, served)
                if served.rows or whole or passes == _PASSES:
                    more = more or served.cut or not whole
                    break
            level = lanes.next_urgency
        return Free(rows, more or len(rows) >= limit)

    async def _lanes(
        self, connection: AsyncConnection, most_urgent: int, least_urgent: int
    ) -> _Lanes | None:
        """The next in turn at the highest urgency at which anybody waits; None: nobody does."""
        cursors = [
            [tenant, endpoint]
            for (urgency, tenant), endpoint in self._after_endpoint.items()
            if urgency >= most_urgent
        ]
        answer = await connection.execute(
            _statements(connection)[0],
            {
                "most_urgent": most_urgent,
                "least_urgent": least_urgent,
                "cursors": json.dumps(cursors),
                **{f"after_{one}": self._after_tenant.get(one, "") for one in _LEVELS},
            },
        )
        found = answer.all()
        if not found:
            return None
        waiting = [(row[1], row[2]) for row in found if row[2] is not None]
        return _Lanes(found[0][0], waiting, found[0][3])

    async def _rows(
        self,
        connection: AsyncConnection,
        lanes: _Lanes,
        *,
        limit: int,
        now: datetime,
        room: Callable[[str], int],
    ) -> _Served:
        """Rows of these lanes in turns, each tenant's share the same."""
        first = lanes.first(limit)
        by_tenant = first.by_tenant
        asked: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        for tenant, endpoint in first.waiting:
            share = ceil(limit / len(by_tenant) / len(by_tenant[tenant]))
            if (quota := min(share, room(endpoint))) > 0:
                asked[min(limit, _rounded(quota))].append((tenant, endpoint))
        found: dict[str, list[PendingDelivery]] = {}
        for most, some in asked.items():
            given = {"lanes": json.dumps(some), "urgency": lanes.urgency, "now": now, "most": most}
            for row in await connection.execute(_statements(connection)[1], given):
                found.setdefault(row.endpoint_id, []).append(pending(row))
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
        return _Served(
            rows,
            # those who were not asked, and those who had some
            skipped={endpoint for _, endpoint in lanes.waiting if endpoint not in first.endpoints}
            | (found.keys() - served.keys()),
            cut=any(
                served[endpoint] == most and room(endpoint) > most
                for most, some in asked.items()
                for _, endpoint in some
            ),
        )

    def _pass_on(self, lanes: _Lanes, served: _Served) -> bool:
        """Those who were skipped are the next, else those after the last who was asked; whether
        everybody was."""
        urgency, by_tenant, skipped = lanes.urgency, lanes.by_tenant, served.skipped
        had_a_turn = {row.tenant_id for row in served.rows}
        whole = _is_whole(self._after_tenant.pop(urgency, ""), list(by_tenant), _TENANTS)
        left_out = set()
        for tenant, endpoints in by_tenant.items():
            key = (urgency, tenant)
            began_after = self._after_endpoint.pop(key, "")
            whole = _is_whole(began_after, endpoints, _ENDPOINTS) and whole
            last = _last(began_after, endpoints, skipped, _ENDPOINTS)
            if last:
                self._after_endpoint[key] = last
            if tenant not in had_a_turn and not skipped.isdisjoint(endpoints):
                left_out.add(tenant)
        last = _last("", list(by_tenant), left_out, _TENANTS)
        if last:
            self._after_tenant[urgency] = last
        return whole and not skipped


def _is_whole(began_after: str, asked: Sequence[str], most: int) -> bool:
    return not began_after and len(asked) < most


def _last(before: str, asked: Sequence[str], skipped: Collection[str], most: int) -> str:
    """After whom the next turn begins; empty: with the first."""
    for one in asked:
        if one in skipped:
            return before
        before = one
    return before if len(asked) == most else ""


def _statements(connection: AsyncConnection) -> tuple[TextClause, Any]:
    return _POSTGRESQL if connection.dialect.name == "postgresql" else _SQLITE


def _in_turns(queues: Iterable[Iterable[_T]]) -> Iterator[_T]:
    """The first of each, then the second of each, for as long as there are any."""
    return (one for turn in zip_longest(*queues) for one in turn if one is not None)


def _id(row: PendingDelivery) -> str:
    return row.delivery_id


def _rounded(quota: int) -> int:
    """A power of four: few different quotas make few statements, and read at most four times what
    is taken."""
    return next(power for power in (1, 4, 16, 64, 256, 1_024) if power >= quota)
