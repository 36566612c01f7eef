"""Operations for Alembic's migrations. Importing this module adds them to `op`:

import hookfast_client.outbox.alembic

def upgrade() -> None:
    op.create_hookfast_outbox()

def downgrade() -> None:
    op.drop_hookfast_outbox()
"""

from __future__ import annotations

from alembic.operations import MigrateOperation, Operations

from hookfast_client.outbox.table import DEFAULT_TABLE, create_statements, drop_statements


@Operations.register_operation("create_hookfast_outbox")
class CreateOutbox(MigrateOperation):
    """Creates the outbox table, its indexes and its trigger."""

    def __init__(self, table: str, *, notify: bool) -> None:
        self.table = table
        self.notify = notify

    @classmethod
    def create_hookfast_outbox(
        cls, operations: Operations, table: str = DEFAULT_TABLE, *, notify: bool = True
    ) -> None:
        """Create the outbox table; see `hookfast_client.outbox.create_statements`."""
        operations.invoke(cls(table, notify=notify))


@Operations.register_operation("drop_hookfast_outbox")
class DropOutbox(MigrateOperation):
    """Drops the outbox table, with the rows that were not sent."""

    def __init__(self, table: str) -> None:
        self.table = table

    @classmethod
    def drop_hookfast_outbox(cls, operations: Operations, table: str = DEFAULT_TABLE) -> None:
        """Drop the outbox table, with the rows that were not sent."""
        operations.invoke(cls(table))


@Operations.implementation_for(CreateOutbox)
def _create(operations: Operations, operation: CreateOutbox) -> None:
    for statement in create_statements(operation.table, notify=operation.notify):
        operations.execute(statement)


@Operations.implementation_for(DropOutbox)
def _drop(operations: Operations, operation: DropOutbox) -> None:
    for statement in drop_statements(operation.table):
        operations.execute(statement)
