"""Sessions of the dashboard."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0010"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dashboard_sessions",
        sa.Column("token_sha256", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("chosen_tenant_id", sa.String(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("token_sha256"),
    )
    op.create_index("ix_dashboard_sessions_expires", "dashboard_sessions", ["expires_at"])
