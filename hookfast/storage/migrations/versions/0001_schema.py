"""The schema of 0.1.0.

Written out, not derived from the table classes, because a migration stays as it is while the
classes change. A test compares the two on both databases.
"""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import ByteOrderText, UtcDateTime
from hookfast.storage.database.feed_position import definition

revision = "0001"
down_revision = None
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
    "hookfast.source.loop_detected": "An event went round in a loop, and was rejected.",
}

# The audit log is append-only. A role that may alter the schema can drop these triggers: they
# protect against mistakes and SQL injection.
_AUDIT_ON_POSTGRESQL = (
    """
    CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF OLD.at < (SELECT complete_since FROM audit_horizon) THEN
                RETURN OLD;
            END IF;
        END IF;
        RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER audit_keeps_rows BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()
    """,
    """
    CREATE TRIGGER audit_keeps_all BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
    """,
    """
    CREATE FUNCTION audit_horizon_moves_forward() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF NEW.complete_since >= OLD.complete_since THEN
                RETURN NEW;
            END IF;
        END IF;
        RAISE EXCEPTION 'the horizon of the audit log only moves forward'
            USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER audit_horizon_keeps BEFORE UPDATE OR DELETE ON audit_horizon
    FOR EACH ROW EXECUTE FUNCTION audit_horizon_moves_forward()
    """,
    """
    CREATE TRIGGER audit_horizon_keeps_all BEFORE TRUNCATE ON audit_horizon
    FOR EACH STATEMENT EXECUTE FUNCTION audit_horizon_moves_forward()
    """,
)
_AUDIT_ON_SQLITE = (
    """
    CREATE TRIGGER audit_keeps_rows BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    """
    CREATE TRIGGER audit_keeps_all BEFORE DELETE ON audit
    WHEN OLD.at >= coalesce((SELECT complete_since FROM audit_horizon), '')
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    # INSERT OR REPLACE deletes the older row without firing the DELETE triggers
    """
    CREATE TRIGGER audit_replaces_none BEFORE INSERT ON audit
    WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    """
    CREATE TRIGGER audit_horizon_keeps BEFORE UPDATE ON audit_horizon
    WHEN NEW.complete_since < OLD.complete_since
    BEGIN SELECT RAISE(ABORT, 'the horizon of the audit log only moves forward'); END
    """,
    """
    CREATE TRIGGER audit_horizon_keeps_all BEFORE DELETE ON audit_horizon
    BEGIN SELECT RAISE(ABORT, 'the horizon of the audit log only moves forward'); END
    """,
)


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    if postgresql:
        op.execute(definition(0))
    _create_tables()
    if postgresql:
        # a default in the database, because rows inserted by hand need a position too
        for table in ("events", "attempts"):
            op.execute(
                f"ALTER TABLE {table} ALTER COLUMN position "
                "SET DEFAULT hookfast_feed_position(pg_current_xact_id())"
            )
        for table in ("events", "attempts", "inbox"):
            # takes the rows of days without a partition, so that inserts never fail
            op.execute(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT")
    for statement in _AUDIT_ON_POSTGRESQL if postgresql else _AUDIT_ON_SQLITE:
        op.execute(statement)
    _insert_system_rows()


def _create_tables() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.String(), nullable=False),
        sa.Column("key_sha256", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key_sha256"),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("response_excerpt", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("request_headers", sa.Text(), nullable=True),
        sa.Column("response_headers", sa.Text(), nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("ix_attempts_delivery", "attempts", ["delivery_id", "number"], unique=False)
    op.create_index("ix_attempts_position", "attempts", ["position", "id"], unique=False)
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=True),
        sa.Column("client_address", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_action", "audit", ["action", "id"], unique=False)
    op.create_index("ix_audit_key", "audit", ["key_id", "id"], unique=False)
    op.create_index("ix_audit_resource", "audit", ["resource_id", "id"], unique=False)
    op.create_index("ix_audit_tenant", "audit", ["tenant_id", "id"], unique=False)
    op.create_table(
        "audit_horizon",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("complete_since", UtcDateTime(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_audit_horizon_is_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "counted_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("counted_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )
    op.create_table(
        "form_once",
        sa.Column("session_sha256", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("sent_at", UtcDateTime(), nullable=False),
        sa.Column("led_to", sa.String(), nullable=True),
        sa.Column("shown_once", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("session_sha256", "token", "path"),
    )
    op.create_index("ix_form_once_sent", "form_once", ["sent_at"], unique=False)
    op.create_table(
        "dashboard_sessions",
        sa.Column("token_sha256", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("chosen_tenant_id", sa.String(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("via", sa.String(), nullable=True),
        sa.Column("endpoint_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("token_sha256"),
    )
    op.create_index(
        "ix_dashboard_sessions_expires", "dashboard_sessions", ["expires_at"], unique=False
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("subscription_id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime(), nullable=True),
        sa.Column("due_at", UtcDateTime(), nullable=True),
        sa.Column("recheck_at", UtcDateTime(), nullable=True),
        sa.Column("began_at", UtcDateTime(), nullable=True),
        sa.Column("excluded_seconds", sa.Float(), server_default="0", nullable=False),
        sa.Column("waiting_since", UtcDateTime(), nullable=True),
        sa.Column("resend_asked_at", UtcDateTime(), nullable=True),
        sa.Column("resend_yields", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("resend_not_before", UtcDateTime(), nullable=True),
        sa.Column("released", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("round", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_attempt_at", UtcDateTime(), nullable=True),
        sa.Column("last_result", sa.String(), nullable=True),
        sa.Column("last_status_code", sa.Integer(), nullable=True),
        sa.Column("last_duration_ms", sa.Float(), nullable=True),
        sa.Column("signals_applied", sa.Text(), nullable=True),
        sa.Column("deliver_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("leased_until", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("wakes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("urgency", sa.Integer(), server_default="3", nullable=False),
        sa.Column("batch_id", sa.String(), nullable=True),
        sa.Column("batch_until", UtcDateTime(), nullable=True),
        sa.Column("lane", ByteOrderText, nullable=True),
        sa.Column("lane_position", sa.BigInteger(), nullable=True),
        sa.Column("place", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
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
        "ix_deliveries_dead_finished",
        "deliveries",
        ["finished_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_delivered_failing",
        "deliveries",
        ["id"],
        unique=False,
        sqlite_where=sa.text("status = 'delivered' AND last_result <> 'success'"),
        postgresql_where=sa.text("status = 'delivered' AND last_result <> 'success'"),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["next_attempt_at"],
        unique=False,
        sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
    )
    op.create_index("ix_deliveries_endpoint", "deliveries", ["endpoint_id", "id"], unique=False)
    op.create_index(
        "ix_deliveries_endpoint_dead",
        "deliveries",
        ["endpoint_id", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_endpoint_undelivered",
        "deliveries",
        ["endpoint_id", "status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.create_index("ix_deliveries_event", "deliveries", ["event_id", "id"], unique=False)
    op.create_index(
        "ix_deliveries_outbox",
        "deliveries",
        ["urgency", "tenant_id", "endpoint_id", "id"],
        unique=False,
        sqlite_where=sa.text("started_at IS NULL"),
        postgresql_where=sa.text("started_at IS NULL"),
    )
    op.create_index(
        "ix_deliveries_queued",
        "deliveries",
        ["lane", "lane_position", "id"],
        unique=False,
        sqlite_where=sa.text("place = 'queued'"),
        postgresql_where=sa.text("place = 'queued'"),
    )
    op.create_index(
        "ix_deliveries_subscription", "deliveries", ["subscription_id", "id"], unique=False
    )
    op.create_index("ix_deliveries_tenant", "deliveries", ["tenant_id", "id"], unique=False)
    op.create_index(
        "ix_deliveries_tenant_dead",
        "deliveries",
        ["tenant_id", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('dead', 'gone')"),
        postgresql_where=sa.text("status IN ('dead', 'gone')"),
    )
    op.create_index(
        "ix_deliveries_tenant_undelivered",
        "deliveries",
        ["tenant_id", "status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.create_index("ix_deliveries_type", "deliveries", ["event_type", "id"], unique=False)
    op.create_index(
        "ix_deliveries_undelivered",
        "deliveries",
        ["status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.create_table(
        "delivery_days",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("delivered", sa.Integer(), nullable=False),
        sa.Column("dead", sa.Integer(), nullable=False),
        sa.Column("gone", sa.Integer(), nullable=False),
        sa.Column("cancelled", sa.Integer(), nullable=False),
        sa.Column("open", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("le_10", sa.Integer(), nullable=False),
        sa.Column("le_25", sa.Integer(), nullable=False),
        sa.Column("le_50", sa.Integer(), nullable=False),
        sa.Column("le_100", sa.Integer(), nullable=False),
        sa.Column("le_250", sa.Integer(), nullable=False),
        sa.Column("le_500", sa.Integer(), nullable=False),
        sa.Column("le_1000", sa.Integer(), nullable=False),
        sa.Column("le_2500", sa.Integer(), nullable=False),
        sa.Column("le_5000", sa.Integer(), nullable=False),
        sa.Column("le_10000", sa.Integer(), nullable=False),
        sa.Column("le_max", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("day", "endpoint_id"),
    )
    op.create_index(
        "ix_delivery_days_endpoint", "delivery_days", ["endpoint_id", "day"], unique=False
    )
    op.create_index("ix_delivery_days_tenant", "delivery_days", ["tenant_id", "day"], unique=False)
    op.create_table(
        "endpoint_health",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.Column("first_failure_at", UtcDateTime(), nullable=True),
        sa.Column("last_failure_at", UtcDateTime(), nullable=True),
        sa.Column("last_success_at", UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("circuit", sa.String(), server_default="closed", nullable=False),
        sa.Column("episode", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("opened_at", UtcDateTime(), nullable=True),
        sa.Column("probes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_probe_at", UtcDateTime(), nullable=True),
        sa.Column("probe_delivery_id", sa.String(), nullable=True),
        sa.Column("probe_until", UtcDateTime(), nullable=True),
        sa.Column("probed_last", sa.String(), nullable=True),
        sa.Column("drain_rate", sa.Float(), nullable=True),
        sa.Column("drained", sa.Integer(), server_default="0", nullable=False),
        sa.Column("workflow_started_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )
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
    op.create_index(
        "ix_endpoint_health_unhealthy",
        "endpoint_health",
        ["endpoint_id"],
        unique=False,
        sqlite_where=sa.text("circuit <> 'closed' OR first_failure_at IS NOT NULL"),
        postgresql_where=sa.text("circuit <> 'closed' OR first_failure_at IS NOT NULL"),
    )
    op.create_table(
        "endpoint_limits",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("next_slot_at", UtcDateTime(), nullable=False),
        sa.Column("promised_until", UtcDateTime(), nullable=False),
        sa.Column("mean_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )
    op.create_table(
        "endpoints",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("owner_emails", sa.JSON(), nullable=False),
        sa.Column("signatures", sa.JSON(), nullable=False),
        sa.Column("signature_hash", sa.String(), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("retry_plan", sa.JSON(), nullable=False),
        sa.Column("timeout_seconds", sa.Float(), nullable=False),
        sa.Column("rate_limit_per_second", sa.Float(), nullable=True),
        sa.Column("max_in_flight", sa.Integer(), nullable=True),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("credentials", sa.JSON(), nullable=False),
        sa.Column("encryption", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("allowed_networks", sa.JSON(), nullable=False),
        sa.Column("circuit", sa.JSON(), nullable=False),
        sa.Column("verification", sa.String(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("mode", sa.String(), server_default="push", nullable=False),
        sa.Column("ordered", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_endpoints_stopped",
        "endpoints",
        ["state", "id"],
        unique=False,
        sqlite_where=sa.text("state <> 'enabled' AND deleted_at IS NULL"),
        postgresql_where=sa.text("state <> 'enabled' AND deleted_at IS NULL"),
    )
    op.create_index("ix_endpoints_tenant", "endpoints", ["tenant_id", "id"], unique=False)
    op.create_table(
        "event_types",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("json_schema", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("traceparent", sa.String(), nullable=False),
        sa.Column("deliveries", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("deliver_at", UtcDateTime(), nullable=True),
        sa.Column("inbox_id", sa.String(), nullable=True),
        sa.Column("ordering_key", sa.Text(), nullable=True),
        sa.Column("hops", sa.Integer(), server_default="0", nullable=False),
        sa.Column("raw_only", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("ix_events_feed", "events", ["position", "id"], unique=False)
    op.create_index("ix_events_tenant", "events", ["tenant_id", "id"], unique=False)
    op.create_index(
        "ix_events_tenant_feed", "events", ["tenant_id", "position", "id"], unique=False
    )
    op.create_index("ix_events_type", "events", ["type", "id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key"),
    )
    op.create_index("ix_idempotency_keys_event", "idempotency_keys", ["event_id"], unique=False)
    op.create_table(
        "in_flight",
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_index("ix_in_flight_endpoint", "in_flight", ["endpoint_id", "until"], unique=False)
    op.create_table(
        "inbox",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("business_key", sa.Text(), nullable=True),
        sa.Column("hops", sa.Integer(), server_default="1", nullable=False),
        sa.Column("payload_sha256", sa.String(), nullable=False),
        sa.Column("content_type", sa.String(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=True),
        sa.Column("suppressed_by", sa.String(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("duplicates", sa.Integer(), nullable=False),
        sa.Column("conflicts", sa.Integer(), nullable=False),
        sa.Column("conflict_sha256", sa.String(), nullable=True),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index(
        "ix_inbox_not_accepted",
        "inbox",
        ["status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 'accepted'"),
        postgresql_where=sa.text("status <> 'accepted'"),
    )
    op.create_index("ix_inbox_source", "inbox", ["source_id", "id"], unique=False)
    op.create_index("ix_inbox_tenant", "inbox", ["tenant_id", "id"], unique=False)
    op.create_table(
        "inbox_keys",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.String(), nullable=False),
        sa.Column("payload_sha256", sa.String(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "key", "payload_sha256"),
    )
    op.create_index("ix_inbox_keys_expiry", "inbox_keys", ["expires_at"], unique=False)
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
        sa.Column("in_hand", sa.JSON(), nullable=True),
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
        "lanes",
        sa.Column("id", ByteOrderText, nullable=False),
        sa.Column("head", sa.String(), nullable=True),
        sa.Column("needs_head", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_lanes_needs_head",
        "lanes",
        ["id"],
        unique=False,
        sqlite_where=sa.text("needs_head"),
        postgresql_where=sa.text("needs_head"),
    )
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
    op.create_index(
        "ix_notices_asks",
        "notices",
        ["owner_hash", "id"],
        unique=False,
        sqlite_where=sa.text("workflow_started_at IS NULL"),
        postgresql_where=sa.text("workflow_started_at IS NULL"),
    )
    op.create_index("ix_notices_endpoint", "notices", ["endpoint_id", "id"], unique=False)
    op.create_index(
        "ix_notices_pending",
        "notices",
        ["owner_hash", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_notices_sent",
        "notices",
        ["owner_hash", "kind", "sent_at"],
        unique=False,
        sqlite_where=sa.text("sent_at IS NOT NULL"),
        postgresql_where=sa.text("sent_at IS NOT NULL"),
    )
    op.create_index(
        "uq_notices", "notices", ["endpoint_id", "episode", "kind", "email"], unique=True
    )
    op.create_table(
        "poll_positions",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=True),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("acknowledged_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )
    op.create_table(
        "process_writes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("written_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
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
        "sent_tests",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("request_headers", sa.Text(), nullable=True),
        sa.Column("request_body", sa.Text(), nullable=False),
        sa.Column("response_headers", sa.Text(), nullable=True),
        sa.Column("response_excerpt", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_sent_tests_endpoint", "sent_tests", ["endpoint_id", "id"], unique=False)
    op.create_index("ix_sent_tests_tenant", "sent_tests", ["tenant_id", "id"], unique=False)
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("public", sa.JSON(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("signs_from", UtcDateTime(), nullable=False),
        sa.Column("retired_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("kid"),
    )
    op.create_table(
        "source_event_types",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "name"),
    )
    op.create_table(
        "source_stats",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("accepted", sa.Integer(), nullable=False),
        sa.Column("duplicates", sa.Integer(), nullable=False),
        sa.Column("conflicts", sa.Integer(), nullable=False),
        sa.Column("suppressed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("last_accepted_at", UtcDateTime(), nullable=True),
        sa.Column("last_rejected_at", UtcDateTime(), nullable=True),
        sa.Column("loop_reported_at", UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "sources",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("allowed_networks", sa.JSON(), nullable=False),
        sa.Column("event_types", sa.JSON(), nullable=False),
        sa.Column("id_expression", sa.Text(), nullable=True),
        sa.Column("idempotency", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_sources_tenant", "sources", ["tenant_id", "id"], unique=False)
    op.create_table(
        "subscription_mappings",
        sa.Column("subscription_id", sa.String(), nullable=False),
        sa.Column("mapping", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("subscription_id"),
    )
    op.create_table(
        "subscription_patterns",
        sa.Column("pattern", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("subscription_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("pattern", "tenant_id", "subscription_id"),
    )
    op.create_index(
        "ix_subscription_patterns_subscription",
        "subscription_patterns",
        ["subscription_id"],
        unique=False,
    )
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("payload", sa.String(), nullable=False),
        sa.Column("mapping", sa.Text(), nullable=True),
        sa.Column("filter", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("ordered", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_subscriptions_endpoint", "subscriptions", ["endpoint_id", "id"], unique=False
    )
    op.create_index("ix_subscriptions_tenant", "subscriptions", ["tenant_id", "id"], unique=False)
    op.create_table(
        "tenant_days",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "day"),
    )
    op.create_index("ix_tenant_days_day", "tenant_days", ["day"], unique=False)
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("quotas", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("portal", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_tenants_quotas",
        "tenants",
        ["id"],
        unique=False,
        sqlite_where=sa.text("quotas IS NOT NULL"),
        postgresql_where=sa.text("quotas IS NOT NULL"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("batching", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _insert_system_rows() -> None:
    """Insert the tenant and the event types of operational events."""
    since = datetime.fromisoformat(_SINCE)
    times = {"created_at": since, "updated_at": since}
    tenants = sa.table(
        "tenants",
        sa.column("id", sa.String),
        sa.column("name", sa.Text),
        sa.column("meta", sa.JSON),
        sa.column("created_at", UtcDateTime),
        sa.column("updated_at", UtcDateTime),
    )
    op.bulk_insert(tenants, [{"id": _SYSTEM_TENANT, "name": "Hookfast", "meta": {}, **times}])
    event_types = sa.table(
        "event_types",
        sa.column("name", sa.String),
        sa.column("description", sa.Text),
        sa.column("created_at", UtcDateTime),
        sa.column("updated_at", UtcDateTime),
    )
    rows = [
        {"name": name, "description": description, **times}
        for name, description in _EVENT_TYPES.items()
    ]
    op.bulk_insert(event_types, rows)
