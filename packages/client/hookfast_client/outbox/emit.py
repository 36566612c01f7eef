"""`emit_in`: write an event into the outbox table, in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol, overload

from hookfast_client.outbox.drivers import insert
from hookfast_client.outbox.row import create_row
from hookfast_client.outbox.table import DEFAULT_TABLE


class _AsyncExecutor(Protocol):
    async def execute(self, *args: Any, **options: Any) -> Any: ...


class _Executor(Protocol):
    def execute(self, *args: Any, **options: Any) -> Any: ...


class _Connection(Protocol):
    def cursor(self, *args: Any, **options: Any) -> Any: ...


@overload
def emit_in(
    connection: _AsyncExecutor,
    type: str,
    data: Any,
    *,
    tenant_id: str | None = None,
    deliver_at: datetime | None = None,
    ordering_key: str | None = None,
    table: str = DEFAULT_TABLE,
) -> Awaitable[str]: ...
@overload
def emit_in(
    connection: _Executor | _Connection,
    type: str,
    data: Any,
    *,
    tenant_id: str | None = None,
    deliver_at: datetime | None = None,
    ordering_key: str | None = None,
    table: str = DEFAULT_TABLE,
) -> str: ...
def emit_in(
    connection: Any,
    type: str,
    data: Any,
    *,
    tenant_id: str | None = None,
    deliver_at: datetime | None = None,
    ordering_key: str | None = None,
    table: str = DEFAULT_TABLE,
) -> str | Awaitable[str]:
    """Emit an event if, and only if, the connection's open transaction commits.

    `data` is any JSON value; bytes are JSON already and are delivered byte for byte. Without
    `tenant_id` the event is for all tenants.

    `connection` is a Connection, Session, AsyncConnection or AsyncSession of SQLAlchemy, a
    Connection of asyncpg, a Connection or Cursor of psycopg 3 (also its async ones), or Django's
    `connection`. Returns the event's idempotency key, by which Hookfast finds it; for an async
    connection, an awaitable of it.

    Nothing is committed here. A savepoint that is rolled back takes the event with it. Raises
    NoTransaction in autocommit mode, ValueError for an event that Hookfast would reject, TypeError
    for another kind of connection, and the driver's own errors.
    """
    row = create_row(
        type,
        data,
        tenant_id=tenant_id,
        deliver_at=deliver_at,
        ordering_key=ordering_key,
        table=table,
    )
    return insert(connection, row)
