"""The table of circuits."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record, partial_index


class EndpointHealth(Record, table=True):
    """An endpoint's health: its consecutive failures, counted in the transaction that records the
    attempt, and its circuit. An endpoint that never failed has no row.

    `episode` numbers the outages; `cause` says what began this one (`failures`, `gone`, `disabled`,
    `resumed`). While the circuit is half-open, `probe_delivery_id` is the one delivery that may be
    sent (NULL: the next one), until `probe_until`; `probed_last` is the held delivery from which
    the next probe searches for an older one.
    """

    __tablename__ = "endpoint_health"
    __table_args__ = (
        partial_index(
            "ix_endpoint_health_asks",
            "endpoint_id",
            where="circuit <> 'closed' AND workflow_started_at IS NULL",
        ),
        partial_index("ix_endpoint_health_open", "opened_at", where="circuit <> 'closed'"),
        # Not `consecutive_failures > 0`, which means the same: PostgreSQL would rewrite the index
        # entries at every failure, because the predicate's column changed.
        partial_index(
            "ix_endpoint_health_unhealthy",
            "endpoint_id",
            where="circuit <> 'closed' OR first_failure_at IS NOT NULL",
        ),
    )

    endpoint_id: str = Field(primary_key=True)
    consecutive_failures: int = 0
    first_failure_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_failure_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_success_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_error: str | None = Field(default=None, sa_type=Text)
    circuit: str = Field(default="closed", sa_column_kwargs={"server_default": "closed"})
    episode: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    cause: str | None = None
    opened_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probes: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    next_probe_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probe_delivery_id: str | None = None
    probe_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probed_last: str | None = None
    drain_rate: float | None = None
    drained: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    workflow_started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
