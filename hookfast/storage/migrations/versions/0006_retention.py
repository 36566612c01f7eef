"""Retention: idempotency keys in a table of their own, events and attempts partitioned by day on
PostgreSQL, counts by day, and what runs of retention did."""

from datetime import timedelta

import sqlalchemy as sa
from alembic import op

from hookfast.clock import utc_now
from hookfast.ids import Prefix, first_id_at, time_of
from hookfast.retention.ages import midnight
from hookfast.storage.database.column_types import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_COUNTS = ("delivered", "dead", "gone", "cancelled", "open", "attempts", "succeeded")
_BUCKETS = ("10", "25", "50", "100", "250", "500", "1000", "2500", "5000", "10000", "max")


def upgrade() -> None:
    op.create_table(
        "retention_runs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("workflow_id", sa.String(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "retention_sweeps",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("cutoff", UtcDateTime(), nullable=True),
        sa.Column("cursor", sa.String(), nullable=True),
        sa.Column("deleted", sa.BigInteger(), nullable=False),
        sa.Column("kept", sa.BigInteger(), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("pinned", sa.JSON(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name"),
    )
    op.create_table(
        "counted_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("counted_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )
    op.create_table(
        "delivery_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _COUNTS),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        *(sa.Column(f"le_{bound}", sa.Integer(), nullable=False) for bound in _BUCKETS),
        sa.PrimaryKeyConstraint("day", "endpoint_id"),
    )
    op.create_index("ix_delivery_days_tenant", "delivery_days", ["tenant_id", "day"])
    op.create_index("ix_delivery_days_endpoint", "delivery_days", ["endpoint_id", "day"])
    _move_idempotency_keys()
    if op.get_bind().dialect.name == "postgresql":
        _partition("events", "evt", {"tenant": "tenant_id, id", "type": "type, id"})
        _partition("attempts", "att", {"delivery": "delivery_id, number"})


def _move_idempotency_keys() -> None:
    """A table in partitions can have no unique index that leaves the partition key out."""
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key"),
    )
    op.execute(
        "INSERT INTO idempotency_keys (scope, key, event_id, sha256, created_at) "
        "SELECT idempotency_scope, idempotency_key, id, idempotency_sha256, created_at "
        "FROM events WHERE idempotency_key IS NOT NULL"
    )
    op.create_index("ix_idempotency_keys_event", "idempotency_keys", ["event_id"])
    op.drop_index("uq_events_idempotency", table_name="events")
    for column in ("idempotency_scope", "idempotency_key", "idempotency_sha256"):
        op.drop_column("events", column)


def _partition(table: str, prefix: Prefix, indexes: dict[str, str]) -> None:
    """Make the table the oldest partition of a new one. No row is copied and no index built: its
    own become parts of the new table's. The rows are read once, to see that they belong there,
    unless a valid CHECK constraint says so."""
    before = f"{table}_before"
    newest = op.get_bind().execute(sa.text(f"SELECT max(id) FROM {table}")).scalar()  # noqa: S608
    # a host whose clock is ahead may have made ids of tomorrow
    last = max(utc_now(), time_of(newest or "") or utc_now())
    bound = first_id_at(prefix, midnight(last) + timedelta(days=1))
    op.execute(f"ALTER TABLE {table} RENAME TO {before}")
    op.execute(f"ALTER INDEX {table}_pkey RENAME TO {before}_pkey")
    for name in indexes:
        op.execute(f"ALTER INDEX ix_{table}_{name} RENAME TO {before}_{name}")
    op.execute(
        f"CREATE TABLE {table} (LIKE {before} INCLUDING DEFAULTS INCLUDING STORAGE, "
        f"CONSTRAINT {table}_pkey PRIMARY KEY (id)) PARTITION BY RANGE (id)"
    )
    for name, columns in indexes.items():
        op.execute(f"CREATE INDEX ix_{table}_{name} ON {table} ({columns})")
    op.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ('{bound}')"
    )
    # takes whatever no other partition does: a day that nobody made one for must not fail
    op.execute(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT")
