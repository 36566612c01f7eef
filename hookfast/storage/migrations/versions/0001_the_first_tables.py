"""The first tables."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
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
    op.create_index(op.f("ix_api_keys_tenant_id"), "api_keys", ["tenant_id"], unique=False)
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
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_attempts_delivery", "attempts", ["delivery_id", "number"], unique=False)
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
        sa.Column("heard", sa.Text(), nullable=True),
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
        sa.PrimaryKeyConstraint("id"),
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
        "ix_deliveries_subscription", "deliveries", ["subscription_id", "id"], unique=False
    )
    op.create_index("ix_deliveries_tenant", "deliveries", ["tenant_id", "id"], unique=False)
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
        "endpoint_health",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.Column("first_failure_at", UtcDateTime(), nullable=True),
        sa.Column("last_failure_at", UtcDateTime(), nullable=True),
        sa.Column("last_success_at", UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
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
        sa.Column("allowed_networks", sa.JSON(), nullable=False),
        sa.Column("circuit", sa.JSON(), nullable=False),
        sa.Column("verification", sa.String(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_endpoints_tenant", "endpoints", ["tenant_id", "id"], unique=False)
    op.create_table(
        "event_types",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("json_schema", sa.JSON(), nullable=True),
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
        sa.Column("idempotency_scope", sa.String(), nullable=True),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("idempotency_sha256", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_tenant", "events", ["tenant_id", "id"], unique=False)
    op.create_index("ix_events_type", "events", ["type", "id"], unique=False)
    op.create_index(
        "uq_events_idempotency", "events", ["idempotency_scope", "idempotency_key"], unique=True
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
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_subscriptions_endpoint", "subscriptions", ["endpoint_id", "id"], unique=False
    )
    op.create_index("ix_subscriptions_tenant", "subscriptions", ["tenant_id", "id"], unique=False)
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("meta", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
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


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_table("tenants")
    op.drop_index("ix_subscriptions_tenant", table_name="subscriptions")
    op.drop_index("ix_subscriptions_endpoint", table_name="subscriptions")
    op.drop_table("subscriptions")
    op.drop_index("ix_subscription_patterns_subscription", table_name="subscription_patterns")
    op.drop_table("subscription_patterns")
    op.drop_index("uq_events_idempotency", table_name="events")
    op.drop_index("ix_events_type", table_name="events")
    op.drop_index("ix_events_tenant", table_name="events")
    op.drop_table("events")
    op.drop_table("event_types")
    op.drop_index("ix_endpoints_tenant", table_name="endpoints")
    op.drop_table("endpoints")
    op.drop_table("endpoint_health")
    op.drop_index(
        "ix_deliveries_undelivered",
        table_name="deliveries",
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.drop_index("ix_deliveries_type", table_name="deliveries")
    op.drop_index(
        "ix_deliveries_tenant_undelivered",
        table_name="deliveries",
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.drop_index("ix_deliveries_tenant", table_name="deliveries")
    op.drop_index("ix_deliveries_subscription", table_name="deliveries")
    op.drop_index(
        "ix_deliveries_outbox",
        table_name="deliveries",
        sqlite_where=sa.text("started_at IS NULL"),
        postgresql_where=sa.text("started_at IS NULL"),
    )
    op.drop_index("ix_deliveries_event", table_name="deliveries")
    op.drop_index(
        "ix_deliveries_endpoint_undelivered",
        table_name="deliveries",
        sqlite_where=sa.text("status <> 'delivered'"),
        postgresql_where=sa.text("status <> 'delivered'"),
    )
    op.drop_index("ix_deliveries_endpoint", table_name="deliveries")
    op.drop_index(
        "ix_deliveries_due",
        table_name="deliveries",
        sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
    )
    op.drop_table("deliveries")
    op.drop_index("ix_attempts_delivery", table_name="attempts")
    op.drop_table("attempts")
    op.drop_index(op.f("ix_api_keys_tenant_id"), table_name="api_keys")
    op.drop_table("api_keys")
