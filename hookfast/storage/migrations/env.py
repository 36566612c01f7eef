"""Alembic's entry: runs the migrations on the connection `migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

import hookfast.storage.tables.audit
import hookfast.storage.tables.control
import hookfast.storage.tables.dashboard  # noqa: F401 - they fill the metadata
import hookfast.storage.tables.inbox
import hookfast.storage.tables.retention

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=False,
)
with context.begin_transaction():
    context.run_migrations()
