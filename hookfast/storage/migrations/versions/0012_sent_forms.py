"""Which forms of the dashboard were sent, and where that led."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dashboard_sent_forms",
        sa.Column("session_sha256", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("sent_at", UtcDateTime(), nullable=False),
        sa.Column("led_to", sa.String(), nullable=True),
        sa.Column("shown_once", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("session_sha256", "token", "path"),
    )
    op.create_index("ix_dashboard_sent_forms_sent", "dashboard_sent_forms", ["sent_at"])
