"""Samples: some rows of each of many ranges, in one statement, and what they say about the rest.

The limit of each range bounds what is read, however many rows it has. SQLAlchemy takes milliseconds
to build a statement of many ranges: keep it, and set its times with `times_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, literal, select, union_all

from hookfast.ids import Prefix, first_id_at

_IDS_AT_ONCE: Final = 500
_LEAST_SHARE: Final = 1e-6


def of_each(statements: Iterable[Select[*tuple[Any, ...]]]) -> Select[Any]:
    """Select the rows of several statements, each after the index of its statement (`index`)."""
    parts = []
    for index, statement in enumerate(statements):
        rows = statement.subquery()
        parts.append(select(literal(index, literal_execute=True).label("index"), *rows.c))
    return select(*union_all(*parts).subquery().c)


def created_in(index: int, key: ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that ids were created in the range of this index."""
    return key >= bindparam(f"from_{index}"), key < bindparam(f"to_{index}")


def times_of(ranges: Iterable[tuple[datetime, datetime]], prefix: Prefix) -> dict[str, str]:
    """Return the parameters of `created_in` for ids with this prefix."""
    times = {}
    for index, (start, end) in enumerate(ranges):
        times[f"from_{index}"] = first_id_at(prefix, start)
        times[f"to_{index}"] = first_id_at(prefix, end)
    return times


def scale(read: timedelta, whole: timedelta) -> float:
    """Return by how much to multiply what was counted in a part of a range, 1 or more: the rest of
    it is assumed to be like the part that was read."""
    return 1 / min(1.0, max(read / whole, _LEAST_SHARE))


def id_chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield these ids in chunks for one statement each, few enough that both planners use the
    index."""
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield ids[start : start + _IDS_AT_ONCE]
