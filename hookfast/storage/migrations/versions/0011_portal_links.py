"""Sessions that began with a portal link, and those that are about one endpoint."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # nullable: the version before goes on adding sessions without them
    op.add_column("dashboard_sessions", sa.Column("via", sa.String(), nullable=True))
    op.add_column("dashboard_sessions", sa.Column("endpoint_id", sa.String(), nullable=True))
