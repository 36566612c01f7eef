"""Circuits, limits, notices, jobs, dead letters, and the system tenant of operational events."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SYSTEM_TENANT = "tnt_00000000000070008000000000000000"
_SINCE = "2026-01-01T00:00:00+00:00"
_EVENT_TYPES = {
    "hookfast.circuit.opened": "An endpoint kept failing; its deliveries are held.",
    "hookfast.circuit.closed": "An endpoint recovered and everything held for it was released.",
    "hookfast.endpoint.disabled": "An endpoint was disabled, by us, by its receiver or by request.",
    "hookfast.endpoint.enabled": "A disabled endpoint was enabled again.",
    "hookfast.delivery.dead": "A delivery ended without success.",
}


def upgrade() -> None:
    op.create_table(
        "endpoint_limits",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("next_slot_at", UtcDateTime(), nullable=False),
        sa.Column("promised_until", UtcDateTime(), nullable=False),
        sa.Column("mean_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )
    op.create_table(
        "in_flight",
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_index("ix_in_flight_endpoint", "in_flight", ["endpoint_id", "until"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("chosen", sa.JSON(), nullable=False),
        sa.Column("rate_per_second", sa.Float(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("cursor", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("workflow_started_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_jobs_asks",
        "jobs",
        ["id"],
        unique=False,
        sqlite_where=sa.text("workflow_started_at IS NULL"),
        postgresql_where=sa.text("workflow_started_at IS NULL"),
    )
    op.create_index("ix_jobs_tenant", "jobs", ["tenant_id", "id"], unique=False)
    op.create_table(
        "notices",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("episode", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("owner_hash", sa.String(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("sent_at", UtcDateTime(), nullable=True),
        sa.Column("workflow_started_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_notices_endpoint", "notices", ["endpoint_id", "id"], unique=False)
    op.create_index(
        "ix_notices_sent",
        "notices",
        ["owner_hash", "kind", "sent_at"],
        unique=False,
        sqlite_where=sa.text("sent_at IS NOT NULL"),
        postgresql_where=sa.text("sent_at IS NOT NULL"),
    )
    op.create_index(
        "ix_notices_asks",
        "notices",
        ["owner_hash", "id"],
        unique=False,
        sqlite_where=sa.text("workflow_started_at IS NULL"),
        postgresql_where=sa.text("workflow_started_at IS NULL"),
    )
    op.create_index(
        "ix_notices_pending",
        "notices",
        ["owner_hash", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "uq_notices", "notices", ["endpoint_id", "episode", "kind", "email"], unique=True
    )
    op.create_index(
        "ix_deliveries_dead",
        "deliveries",
        ["id"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_endpoint_dead",
        "deliveries",
        ["endpoint_id", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_dead_finished",
        "deliveries",
        ["finished_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_tenant_dead",
        "deliveries",
        ["tenant_id", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.add_column(
        "endpoint_health",
        sa.Column("circuit", sa.String(), server_default="closed", nullable=False),
    )
    op.add_column(
        "endpoint_health", sa.Column("episode", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("endpoint_health", sa.Column("cause", sa.String(), nullable=True))
    op.add_column("endpoint_health", sa.Column("opened_at", UtcDateTime(), nullable=True))
    op.add_column(
        "endpoint_health", sa.Column("probes", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("endpoint_health", sa.Column("next_probe_at", UtcDateTime(), nullable=True))
    op.add_column("endpoint_health", sa.Column("probe_delivery_id", sa.String(), nullable=True))
    op.add_column("endpoint_health", sa.Column("probe_until", UtcDateTime(), nullable=True))
    op.add_column("endpoint_health", sa.Column("probed_last", sa.String(), nullable=True))
    op.add_column("endpoint_health", sa.Column("drain_rate", sa.Float(), nullable=True))
    op.add_column(
        "endpoint_health", sa.Column("drained", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("endpoint_health", sa.Column("workflow_started_at", UtcDateTime(), nullable=True))
    op.create_index(
        "ix_endpoint_health_asks",
        "endpoint_health",
        ["endpoint_id"],
        unique=False,
        sqlite_where=sa.text("circuit <> 'closed' AND workflow_started_at IS NULL"),
        postgresql_where=sa.text("circuit <> 'closed' AND workflow_started_at IS NULL"),
    )
    op.create_index(
        "ix_endpoint_health_open",
        "endpoint_health",
        ["opened_at"],
        unique=False,
        sqlite_where=sa.text("circuit <> 'closed'"),
        postgresql_where=sa.text("circuit <> 'closed'"),
    )
    _seed()


def _seed() -> None:
    since = datetime.fromisoformat(_SINCE)
    tenants = sa.table(
        "tenants",
        sa.column("id", sa.String),
        sa.column("name", sa.Text),
        sa.column("meta", sa.JSON),
        sa.column("created_at", UtcDateTime),
        sa.column("updated_at", UtcDateTime),
    )
    row = {"id": _SYSTEM_TENANT, "name": "Hookfast", "meta": {}}
    op.bulk_insert(tenants, [row | {"created_at": since, "updated_at": since}])
    types = sa.table(
        "event_types",
        sa.column("name", sa.String),
        sa.column("description", sa.Text),
        sa.column("created_at", UtcDateTime),
        sa.column("updated_at", UtcDateTime),
    )
    names = list(_EVENT_TYPES)
    # someone may have registered one of these names before they were ours
    op.execute(types.delete().where(types.c.name.in_(names)))
    op.bulk_insert(
        types,
        [
            {
                "name": name,
                "description": _EVENT_TYPES[name],
                "created_at": since,
                "updated_at": since,
            }
            for name in names
        ],
    )


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM event_types WHERE name LIKE 'hookfast.%'"))
    op.execute(sa.text("DELETE FROM tenants WHERE id = 'tnt_00000000000070008000000000000000'"))

    op.drop_index(
        "ix_endpoint_health_open",
        table_name="endpoint_health",
        sqlite_where=sa.text("circuit <> 'closed'"),
        postgresql_where=sa.text("circuit <> 'closed'"),
    )
    op.drop_index(
        "ix_endpoint_health_asks",
        table_name="endpoint_health",
        sqlite_where=sa.text("circuit <> 'closed' AND workflow_started_at IS NULL"),
        postgresql_where=sa.text("circuit <> 'closed' AND workflow_started_at IS NULL"),
    )
    op.drop_column("endpoint_health", "workflow_started_at")
    op.drop_column("endpoint_health", "drained")
    op.drop_column("endpoint_health", "drain_rate")
    op.drop_column("endpoint_health", "probed_last")
    op.drop_column("endpoint_health", "probe_until")
    op.drop_column("endpoint_health", "probe_delivery_id")
    op.drop_column("endpoint_health", "next_probe_at")
    op.drop_column("endpoint_health", "probes")
    op.drop_column("endpoint_health", "opened_at")
    op.drop_column("endpoint_health", "cause")
    op.drop_column("endpoint_health", "episode")
    op.drop_column("endpoint_health", "circuit")
    op.drop_index(
        "ix_deliveries_tenant_dead",
        table_name="deliveries",
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.drop_index(
        "ix_deliveries_endpoint_dead",
        table_name="deliveries",
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.drop_index(
        "ix_deliveries_dead_finished",
        table_name="deliveries",
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.drop_index(
        "ix_deliveries_dead",
        table_name="deliveries",
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.drop_index("uq_notices", table_name="notices")
    op.drop_index("ix_notices_endpoint", table_name="notices")
    op.drop_index(
        "ix_notices_sent",
        table_name="notices",
        sqlite_where=sa.text("sent_at IS NOT NULL"),
        postgresql_where=sa.text("sent_at IS NOT NULL"),
    )
    op.drop_index(
        "ix_notices_pending",
        table_name="notices",
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.drop_index(
        "ix_notices_asks",
        table_name="notices",
        sqlite_where=sa.text("workflow_started_at IS NULL"),
        postgresql_where=sa.text("workflow_started_at IS NULL"),
    )
    op.drop_table("notices")
    op.drop_index("ix_jobs_tenant", table_name="jobs")
    op.drop_index(
        "ix_jobs_asks",
        table_name="jobs",
        sqlite_where=sa.text("workflow_started_at IS NULL"),
        postgresql_where=sa.text("workflow_started_at IS NULL"),
    )
    op.drop_table("jobs")
    op.drop_index("ix_in_flight_endpoint", table_name="in_flight")
    op.drop_table("in_flight")
    op.drop_table("endpoint_limits")
