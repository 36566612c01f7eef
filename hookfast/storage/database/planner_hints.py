"""Conditions that steer the query planners: SQLite has no statistics here, PostgreSQL does."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class Residual(FunctionElement[str]):
    """A column that only filters the rows which another condition has found by its index.

    SQLite may pick this column's index over a narrower one; the unary `+` is the documented way to
    rule an index out. PostgreSQL plans better with the bare column.
    """

    inherit_cache = True
    name = "residual"

    def __init__(self, column: ColumnElement[str]) -> None:
        super().__init__(column)
        self.type = column.type


class Implied(FunctionElement[Any]):
    """A partial index's predicate, which the other conditions imply.

    SQLite uses a partial index only if its predicate is in the statement. PostgreSQL proves it, and
    would count it twice in its estimates if it were there.
    """

    inherit_cache = True
    name = "implied"

    def __init__(self, predicate: ColumnElement[bool]) -> None:
        super().__init__(predicate)  # without a type: a boolean one would be compared with 1


def constant(value: str) -> ColumnElement[str]:
    """Return a constant of ours, without quotes, in the text of the statement. No planner matches a
    bound parameter with the predicate of a partial index."""
    return literal_column(f"'{value}'")


def undelivered(status: ColumnElement[str], *values: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a delivery has one of these statuses, none of which is
    `delivered`, for the partial indexes of undelivered deliveries."""
    found = [constant(value) for value in values]
    is_one = status == found[0] if len(found) == 1 else status.in_(found)
    return Implied(status != constant("delivered")), is_one


@compiles(Residual)
def _plain(element: Residual, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(Residual, "sqlite")
def _unindexed(element: Residual, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


@compiles(Implied)
def _omitted(element: Implied, compiler: SQLCompiler, **options: Any) -> str:
    return "true"


@compiles(Implied, "sqlite")
def _spelled_out(element: Implied, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)
