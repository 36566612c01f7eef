"""Keyset pagination in SQL: each page is one range of an index, however far into the list."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select

from hookfast.ids import Prefix, first_id_at

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
