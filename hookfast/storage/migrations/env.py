"""Alembic's entry: runs the migrations on the connection `migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

import hookfast.storage.audit_table
import hookfast.storage.control_tables
import hookfast.storage.inbox_tables
import hookfast.storage.retention_tables
import hookfast.storage.session_table  # noqa: F401 - they fill the metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=False,
)
with context.begin_transaction():
    context.run_migrations()
