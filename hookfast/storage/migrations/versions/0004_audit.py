"""The audit log, append-only."""

import sqlalchemy as sa
from alembic import op

from hookfast.storage.database.column_types import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Whoever may alter the schema can drop these: they are there for mistakes, and for SQL injection.
_POSTGRESQL = (
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
_SQLITE = (
    """
    CREATE TRIGGER audit_keeps_rows BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    """
    CREATE TRIGGER audit_keeps_all BEFORE DELETE ON audit
    WHEN OLD.at >= coalesce((SELECT complete_since FROM audit_horizon), '')
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    # INSERT OR REPLACE deletes the older row without asking the triggers of DELETE
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
    op.create_table(
        "audit",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=True),
        sa.Column("client_address", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_tenant", "audit", ["tenant_id", "id"], unique=False)
    op.create_index("ix_audit_resource", "audit", ["resource_id", "id"], unique=False)
    op.create_index("ix_audit_key", "audit", ["key_id", "id"], unique=False)
    op.create_index("ix_audit_action", "audit", ["action", "id"], unique=False)
    op.create_table(
        "audit_horizon",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("complete_since", UtcDateTime(), nullable=False),
        sa.CheckConstraint("id = 1", name="ck_audit_horizon_is_one_row"),
        sa.PrimaryKeyConstraint("id"),
    )
    for statement in _POSTGRESQL if op.get_bind().dialect.name == "postgresql" else _SQLITE:
        op.execute(statement)
