"""Runs functions once a transaction is committed: log lines and metrics, which must not report what
is rolled back.

A crash between the commit and a function loses the function's effect, so it must not matter to any
delivery: whatever has to happen is a row of the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

_INFO = "hookfast.after_commit"
"""The key in the connection's `info`, which belongs to the pooled connection and outlives the
transaction."""

Functions: TypeAlias = list[Callable[[], None]]


def begin(connection: AsyncConnection) -> Functions:
    """Start collecting for a new transaction, and return the list that `after_commit` adds to."""
    functions: Functions = []
    connection.info[_INFO] = functions
    return functions


def after_commit(connection: AsyncConnection, function: Callable[[], None]) -> None:
    """Call `function` once the transaction of this connection, of `Database.write`, is committed
    and its connection is free again. If it is rolled back, the function is dropped."""
    functions: Functions = connection.info[_INFO]
    functions.append(function)
