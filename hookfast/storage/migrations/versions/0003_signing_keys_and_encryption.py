"""The service's signing keys, and payload encryption of endpoints."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
    op.add_column("endpoints", sa.Column("encryption", sa.JSON(), nullable=True))
