"""The schema of 0.1.0: the tables of `hookfast.storage.tables`, and what these cannot say.

Until the release is tagged, this migration follows the table classes. Then `make freeze` writes the
tables into it, because a released migration stays as it is while the classes change.
"""

from datetime import datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.feed_position import definition
from hookfast.storage.tables import Record

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
        # 200 is the answer of most deliveries and of no dead letter: without this, a page of the
        # dead letters with it would be looked for among all deliveries
        op.execute(
            "CREATE STATISTICS deliveries_answers (mcv) "
            "ON status, last_result, last_status_code FROM deliveries"
        )
        for table in ("events", "attempts", "inbox"):
            # takes the rows of days without a partition, so that inserts never fail
            op.execute(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT")
    for statement in _AUDIT_ON_POSTGRESQL if postgresql else _AUDIT_ON_SQLITE:
        op.execute(statement)
    _insert_system_rows()


def _create_tables() -> None:
    for table in Record.metadata.sorted_tables:
        op.execute(CreateTable(table))
        # in one order: it decides which of two equally good indexes SQLite uses
        for index in sorted(table.indexes, key=lambda one: str(one.name)):
            op.execute(CreateIndex(index))


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
