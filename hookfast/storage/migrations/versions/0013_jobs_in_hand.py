"""Which deliveries a job has in hand, so that a crash leaves none of them uncounted."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # nullable: the version before goes on adding jobs without it
    op.add_column("jobs", sa.Column("in_hand", sa.JSON(), nullable=True))
