"""Conditions that steer the planners: SQLite has no statistics here, PostgreSQL has them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class Residual(FunctionElement[str]):
    """A column that may only check the rows another condition has found.

    SQLite would as soon take its index as a narrower one; the unary `+` is the documented way to
    rule an index out. PostgreSQL does better knowing everything.
    """

    inherit_cache = True
    name = "residual"

    def __init__(self, column: ColumnElement[str]) -> None:
        super().__init__(column)
        self.type = column.type


class Implied(FunctionElement[Any]):
    """A partial index's predicate that the other conditions imply.

    SQLite uses a partial index only where its predicate stands in the statement. PostgreSQL proves
    it, and would count it twice in its estimates if it stood there.
    """

    inherit_cache = True
    name = "implied"

    def __init__(self, predicate: ColumnElement[bool]) -> None:
        super().__init__(predicate)  # without a type: a boolean one would be compared with 1


@compiles(Residual)
def _known(element: Residual, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(Residual, "sqlite")
def _unindexed(element: Residual, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


@compiles(Implied)
def _left_out(element: Implied, compiler: SQLCompiler, **options: Any) -> str:
    return "true"


@compiles(Implied, "sqlite")
def _said(element: Implied, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)
