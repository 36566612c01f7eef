"""Alembic's entry point: runs the migrations on the connection that `migrate` passes."""

from alembic import context

from hookfast.storage.tables import Record

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Record.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=False,
)
with context.begin_transaction():
    context.run_migrations()
