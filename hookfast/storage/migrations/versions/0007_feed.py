"""Positions of events in the feed.

Online: on PostgreSQL a column with a constant default rewrites nothing, and indexes are built only
where events are still added. Events from before have the position 0 and are read by their ids.
"""

from datetime import timedelta

import sqlalchemy as sa
from alembic import op

from hookfast.clock import utc_now
from hookfast.ids import first_id_at
from hookfast.storage.database.feed_position import definition

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INDEXES = {"ix_events_feed": "position, id", "ix_events_tenant_feed": "tenant_id, position, id"}


def upgrade() -> None:
    op.add_column(
        "events", sa.Column("position", sa.BigInteger(), nullable=False, server_default="0")
    )
    if op.get_bind().dialect.name != "postgresql":
        for name, columns in _INDEXES.items():
            op.create_index(name, "events", columns.split(", "))
        return
    op.execute(definition(0))
    # The old version's processes, which know of no positions, get theirs too.
    op.execute(
        "ALTER TABLE events ALTER COLUMN position "
        "SET DEFAULT hookfast_feed_position(pg_current_xact_id())"
    )
    partitions = _still_filled()
    for name, columns in _INDEXES.items():
        # Of the whole table it is valid once the partitions without it have gone. Partitions that
        # are made from now on have it from the start.
        op.execute(f"CREATE INDEX {name} ON ONLY events ({columns})")
        for partition in partitions:
            own = f"{partition}_{name.removeprefix('ix_events_')}"
            op.execute(f"CREATE INDEX {own} ON {partition} ({columns})")
            op.execute(f"ALTER INDEX {name} ATTACH PARTITION {own}")


def _still_filled() -> list[str]:
    """The partitions that take events of yesterday and later, and the DEFAULT one."""
    rows = op.get_bind().execute(
        sa.text(
            "SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \\(''(.*)''') "
            "FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = 'events'::regclass"
        )
    )
    yesterday = first_id_at("evt", utc_now() - timedelta(days=1))
    return [name for name, until in rows if until is None or until > yesterday]
