"""Endpoints that are polled, and how far their consumers have come.

Online: on PostgreSQL a column with a constant default rewrites nothing.
"""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "endpoints", sa.Column("mode", sa.String(), nullable=False, server_default="push")
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
