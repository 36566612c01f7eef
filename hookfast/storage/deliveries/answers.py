"""The conditions that select attempts and deliveries by an answer. No index begins with them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Table, literal

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
        return result == _known(chosen.result.value)
    if chosen.lowest == chosen.highest:
        return status_code == _known(chosen.lowest)
    return status_code.between(_known(chosen.lowest), _known(chosen.highest))


def _known(value: str | int | None) -> ColumnElement[Any]:
    """Return a value in the text of the statement. After some executions with a bound parameter,
    PostgreSQL plans for any value: as if every result was frequent, it would look for a rare one
    among all deliveries."""
    return literal(value, literal_execute=True)
