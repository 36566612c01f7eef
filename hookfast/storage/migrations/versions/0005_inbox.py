"""Sources and the inbox."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NOT_ACCEPTED = sa.text("status <> 'accepted'")


def upgrade() -> None:
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
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("source_id"),
    )
    op.create_table(
        "source_event_types",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "name"),
    )
    op.create_table(
        "inbox",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("business_key", sa.Text(), nullable=True),
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
    op.create_index("ix_inbox_source", "inbox", ["source_id", "id"], unique=False)
    op.create_index("ix_inbox_tenant", "inbox", ["tenant_id", "id"], unique=False)
    op.create_index(
        "ix_inbox_not_accepted",
        "inbox",
        ["status", "id"],
        unique=False,
        sqlite_where=_NOT_ACCEPTED,
        postgresql_where=_NOT_ACCEPTED,
    )
    op.create_table(
        "inbox_keys",
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("inbox_id", sa.String(), nullable=False),
        sa.Column("payload_sha256", sa.String(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "key"),
    )
    op.create_index("ix_inbox_keys_expiry", "inbox_keys", ["expires_at"], unique=False)
    op.add_column("events", sa.Column("inbox_id", sa.String(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        # takes whatever no other partition does: a day that nobody made one for must not fail
        op.execute("CREATE TABLE inbox_default PARTITION OF inbox DEFAULT")
