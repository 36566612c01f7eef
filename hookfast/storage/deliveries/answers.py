"""The conditions that select attempts and deliveries by an answer. They use no index."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Table

from hookfast.deliveries.answer import AnswerFilter
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__


def delivery_matches(chosen: AnswerFilter) -> ColumnElement[bool]:
    """Return the condition that the answer to a delivery's newest attempt matches."""
    return matches(chosen, _DELIVERIES.c.last_result, _DELIVERIES.c.last_status_code)


def matches(
    chosen: AnswerFilter, result: ColumnElement[Any], status_code: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Return the condition that an answer in these columns matches."""
    if chosen.result is not None:
        return result == chosen.result.value
    if chosen.lowest == chosen.highest:
        return status_code == chosen.lowest
    return status_code.between(chosen.lowest, chosen.highest)
