"""The conditions that select attempts and deliveries by an answer. None of them uses an index."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, Table

from hookfast.deliveries.answer import AnswerFilter
from hookfast.storage.tables import Attempt, Delivery

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__


def attempt_matches(chosen: AnswerFilter) -> ColumnElement[bool]:
    """Return the condition that an attempt's answer matches."""
    return _matches(chosen, _ATTEMPTS.c.result, _ATTEMPTS.c.status_code)


def delivery_matches(chosen: AnswerFilter) -> ColumnElement[bool]:
    """Return the condition that the answer to a delivery's newest attempt matches."""
    return _matches(chosen, _DELIVERIES.c.last_result, _DELIVERIES.c.last_status_code)


def _matches(
    chosen: AnswerFilter, result: Column[Any], status_code: Column[Any]
) -> ColumnElement[bool]:
    if chosen.result is not None:
        return result == chosen.result.value
    if chosen.lowest == chosen.highest:
        return status_code == chosen.lowest
    return status_code.between(chosen.lowest, chosen.highest)
