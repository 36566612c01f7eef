"""Keyset pagination in SQL: each page is one range of an index, however far into the list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table

from hookfast.ids import Prefix, first_id_at
from hookfast.storage.database.planner_hints import Residual

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


def narrowest_first(
    table: Table, chosen: object, names: Sequence[str]
) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter's fields, named like columns, that are not None. `names`
    has them in order: only the first given one uses its index, the others check the rows it
    finds."""
    given = [(name, value) for name in names if (value := getattr(chosen, name)) is not None]
    return [
        (Residual(table.c[name]) if index else table.c[name]) == value
        for index, (name, value) in enumerate(given)
    ]


def created_between(
    key: ColumnElement[str], prefix: Prefix, since: datetime | None, until: datetime | None
) -> list[ColumnElement[bool]]:
    """Return the conditions that ids with this prefix were created at or after `since` and before
    `until`."""
    found: list[ColumnElement[bool]] = []
    if since is not None:
        found.append(key >= first_id_at(prefix, since))
    if until is not None:
        found.append(key < first_id_at(prefix, until))
    return found
