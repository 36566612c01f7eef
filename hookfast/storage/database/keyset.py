"""Keyset pagination in SQL: each page is one range over an index, however deep it lies."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select

Statement = TypeVar("Statement", bound=Select[Any])


def newest_first(
    statement: Statement, key: ColumnElement[str], *, after: str | None, limit: int
) -> Statement:
    """`statement`'s rows by descending `key`, the first `limit` beyond the key `after`."""
    if after is not None:
        statement = statement.where(key < after)
    return statement.order_by(key.desc()).limit(limit)


def by_name(
    statement: Statement, key: ColumnElement[str], *, after: str | None, limit: int
) -> Statement:
    """`statement`'s rows by ascending `key`, the first `limit` beyond the key `after`."""
    if after is not None:
        statement = statement.where(key > after)
    return statement.order_by(key).limit(limit)
