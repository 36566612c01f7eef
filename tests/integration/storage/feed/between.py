"""A connection beside which something else is committed between two of its statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection


class _Between:
    def __init__(self, connection: AsyncConnection, happen: Callable[[], Awaitable[Any]]) -> None:
        self._connection = connection
        self._happen: Callable[[], Awaitable[Any]] | None = happen

    async def execute(self, *arguments: Any) -> Any:
        result = await self._connection.execute(*arguments)
        if (happen := self._happen) is not None:
            self._happen = None
            await happen()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def after_the_first_statement(
    connection: AsyncConnection, happen: Callable[[], Awaitable[Any]]
) -> AsyncConnection:
    """Return the connection, which waits for `happen` after its next statement."""
    return cast(AsyncConnection, _Between(connection, happen))
