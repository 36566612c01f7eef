"""The relay's SQL. All of it runs in a transaction that the caller has begun.

Rows are never read by a cursor over `id`: a transaction that took a lower id may commit later, and
its row would be passed over. Instead a relay claims what is visible and neither sent nor rejected,
lowest id first, and holds the claim as a row lock until the result is written. So a claim ends with
the relay that holds it, however that ends, and no lease has to run out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hookfast_client.outbox.table import MAX_DATA_BYTES, TableName

COUNTED = 100_000
"""Rows are counted up to this number, because counting takes as long as they are many."""

_MEMBERS = {
    "key": "idempotency_key",
    "type": "type",
    "tenant_id": "tenant_id",
    "deliver_at": "deliver_at",
    "ordering_key": "ordering_key",
    "traceparent": "traceparent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRow:
    """A claimed row; `event` is the element of a batch request, None if its data is larger than
    Hookfast ever accepts. `tenant` is "" for none."""

    id: int
    key: str
    type: str
    tenant: str
    event: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The state of the table. `waiting` and `rejected` are counted up to COUNTED rows;
    `lag_seconds` is the age of the oldest row that waits, 0 if none does."""

    waiting: int
    rejected: int
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class Queue:
    """The statements on one outbox table."""

    table: TableName

    async def take_turn(self, connection: Any) -> bool:
        """Try to let only this transaction relay the table until it ends; return whether it may."""
        taken: bool = await connection.fetchval(
            "SELECT pg_try_advisory_xact_lock("
            "  hashtextextended('hookfast_outbox:' || $1::text::regclass::oid, 0))",
            str(self.table),
        )
        return taken

    async def claim(
        self, connection: Any, *, rows: int, data_bytes: int, without_tenants: Collection[str]
    ) -> list[ClaimedRow]:
        """Claim the oldest rows, as long as their data is at most `data_bytes` together, but at
        least one. Those of the tenants `without_tenants` stay, and so do rows that somebody else
        has locked."""
        found = await connection.fetch(
            f"""
            WITH claimed AS (
              SELECT id, octet_length(data::text) AS size FROM {self.table}
              WHERE sent_at IS NULL AND rejected_at IS NULL
                AND coalesce(tenant_id, '') <> ALL ($3::text[])
              ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
            ), sized AS (
              SELECT id, size, sum(size) OVER (ORDER BY id) AS total FROM claimed
            )
            SELECT id, key::text, type, tenant_id, ordering_key, traceparent,
              CASE WHEN size <= {MAX_DATA_BYTES} THEN data::text END AS data,
              to_json(deliver_at) #>> '{{}}' AS deliver_at -- of years that Python has no date for
            FROM sized JOIN {self.table} USING (id)
            WHERE total <= $2 OR total = size ORDER BY id
            """,  # noqa: S608 - the name of the table is checked and quoted
            rows,
            data_bytes,
            list(without_tenants),
        )
        return [
            ClaimedRow(
                id=row["id"],
                key=row["key"],
                type=row["type"],
                tenant=row["tenant_id"] or "",
                event=None if row["data"] is None else _event(row),
            )
            for row in found
        ]

    async def mark_sent(self, connection: Any, event_ids: Mapping[int, str], *, keep: bool) -> None:
        """Record that these rows, by their id, are events now: delete them, or keep them with the
        id of their event."""
        ids = list(event_ids)
        if not keep:
            await connection.execute(
                f"DELETE FROM {self.table} WHERE id = ANY ($1::bigint[])",  # noqa: S608
                ids,
            )
            return
        await connection.execute(
            f"""
            UPDATE {self.table} AS t SET sent_at = clock_timestamp(), event_id = r.event_id
            FROM unnest($1::bigint[], $2::text[]) AS r (id, event_id) WHERE t.id = r.id
            """,  # noqa: S608
            ids,
            list(event_ids.values()),
        )

    async def mark_rejected(self, connection: Any, errors: Mapping[int, str]) -> None:
        """Record that Hookfast rejected these rows for good. They stay until somebody acts."""
        await connection.execute(
            f"""
            UPDATE {self.table} AS t SET rejected_at = clock_timestamp(), error = r.error
            FROM unnest($1::bigint[], $2::text[]) AS r (id, error) WHERE t.id = r.id
            """,  # noqa: S608
            list(errors),
            list(errors.values()),
        )

    async def delete_sent(self, connection: Any, *, age: timedelta, rows: int) -> int:
        """Delete at most this many rows that were sent longer ago than `age`. Return how many."""
        done: str = await connection.execute(
            f"""
            DELETE FROM {self.table} WHERE id IN (
              SELECT id FROM {self.table}
              WHERE sent_at < clock_timestamp() - $1::interval
              ORDER BY sent_at LIMIT $2 FOR UPDATE SKIP LOCKED
            )
            """,  # noqa: S608
            age,
            rows,
        )
        return int(done.rpartition(" ")[2])

    async def figures(self, connection: Any) -> Figures:
        """Return the state of the table."""
        waiting = f"FROM {self.table} WHERE sent_at IS NULL AND rejected_at IS NULL"
        row = await connection.fetchrow(
            f"""
            SELECT
              (SELECT count(*) FROM (SELECT {waiting} LIMIT {COUNTED}) AS w) AS waiting,
              (SELECT count(*) FROM (
                 SELECT FROM {self.table} WHERE rejected_at IS NOT NULL LIMIT {COUNTED}
               ) AS r) AS rejected,
              extract(epoch FROM clock_timestamp() - (
                SELECT created_at {waiting} AND isfinite(created_at) ORDER BY id LIMIT 1
              ))::float8 AS lag
            """  # noqa: S608
        )
        return Figures(
            waiting=row["waiting"], rejected=row["rejected"], lag_seconds=max(0.0, row["lag"] or 0)
        )


def _event(row: Any) -> bytes:
    """Return a row as the API takes it. The text of its data is sent unchanged: Hookfast delivers
    it byte for byte."""
    members = {name: row[column] for column, name in _MEMBERS.items() if row[column] is not None}
    head = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    return f'{head[:-1]},"data":{row["data"]}}}'.encode()
