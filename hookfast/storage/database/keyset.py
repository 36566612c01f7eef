"""Keyset pagination in SQL: each page is one range of an index, however far into the list."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select

Statement = TypeVar("Statement", bound=Select[Any])


def newest_first(
    statement: Statement, key: ColumnElement[str], *, after: str | None, limit: int
) -> Statement:
    """Select the first `limit` rows beyond the key `after`, by descending `key`."""
    if after is not None:
        statement = statement.where(key < after)
    return statement.order_by(key.desc()).limit(limit)


def by_name(
    statement: Statement, key: ColumnElement[str], *, after: str | None, limit: int
) -> Statement:
    """Select the first `limit` rows beyond the key `after`, by ascending `key`."""
    if after is not None:
        statement = statement.where(key > after)
    return statement.order_by(key).limit(limit)
