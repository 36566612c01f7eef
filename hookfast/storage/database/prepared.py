"""Statements that are declared with SQLAlchemy, compiled once per dialect, and run by the driver.

For each execution SQLAlchemy looks up what it compiled, builds a dictionary of parameters for each
row, formats the same times again and again, and wraps cursor and rows: 26 to 40 µs of CPU for a
statement, and half of the CPU of a large insert. Statements of the hot paths are `Prepared`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, cast

from sqlalchemy import ARRAY, Column, Dialect, Insert, Select, Text, TextClause
from sqlalchemy import bindparam as _bindparam
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.schema import ScalarElementColumnDefault
from sqlalchemy.sql.selectable import TextualSelect
from sqlalchemy.types import TypeDecorator, TypeEngine

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.driver import driver_of, is_observed, raise_as_sqlalchemy

Given = Mapping[str, Any]
"""The parameters of an execution, or the columns of a row, by name."""
Declared = Select[Any] | TextualSelect | TextClause | UpdateBase

_GUESSED: Final = 10
"""How many elements PostgreSQL expects in an array that it does not know. It plans a statement for
fewer again at each execution (0.05 to 0.14 ms), so a shorter list of unique keys repeats the last
one. Of other columns that would be wrong: it expects many rows for each element."""
_FLOAT8: Final = 701
"""PostgreSQL's id of the type of our columns of numbers that are not whole."""
_TIMES: Final = 500
"""The rows of a group have many times in common. So many are kept with their converted form."""
_NOTHING: Final[Given] = {}
_STATEMENTS: Final = 200
"""The joined statements that are kept."""
_NUMBER: Final = re.compile(r"\$(\d+)")
_PARAMETER: Final = re.compile(r"\$(\d+)(?:::(TIMESTAMP WITH TIME ZONE|[A-Z]+))?")


class Prepared:
    """A statement with named parameters. The columns of an INSERT are those of its first row; all
    others get their defaults, which must be constants or SQL."""

    def __init__(self, statement: Declared) -> None:
        self.declared = statement.inline() if isinstance(statement, Insert) else statement
        self._by_names = isinstance(statement, Insert)
        self._compiled: dict[object, _Compiled] = {}

    async def rows(self, connection: AsyncConnection, given: Given = _NOTHING) -> Sequence[Any]:
        """Run the statement, and return its rows, as sequences of values."""
        compiled = self._compiled_for(connection, given)
        [parameters] = compiled.parameters([given])
        return compiled.converted(await _run(connection, compiled.sql, parameters))

    async def mappings(
        self, connection: AsyncConnection, given: Given = _NOTHING
    ) -> list[dict[str, Any]]:
        """Run the statement, and return its rows by the names of their columns."""
        names = self._compiled_for(connection, given).names
        return [dict(zip(names, row, strict=True)) for row in await self.rows(connection, given)]

    async def each(self, connection: AsyncConnection, rows: Sequence[Given]) -> None:
        """Run the statement for each of these rows, of which there is at least one. An UPDATE has
        them in any order, and each changes another row."""
        writes = Writes()
        writes.add(self, rows)
        await writes.run(connection)

    def _compiled_for(self, connection: AsyncConnection, given: Given) -> _Compiled:
        dialect = connection.dialect
        key = (dialect.name, *given) if self._by_names else dialect.name
        compiled = self._compiled.get(key)
        if compiled is None:
            names = list(given) if self._by_names else None
            compiled = self._compiled[key] = compile_for(self.declared, dialect, names)
        return compiled


class Writes:
    """Rows to insert or update with several statements, no row twice and in any order. PostgreSQL
    gets them as one statement: alone, an event with its delivery and figures takes one round trip
    instead of three. Many rows are sent as arrays."""

    def __init__(self) -> None:
        self._parts: list[tuple[Prepared, Sequence[Given]]] = []

    def add(self, statement: Prepared, rows: Sequence[Given]) -> None:
        """Add rows for this statement, perhaps none."""
        if rows:
            self._parts.append((statement, rows))

    async def run(self, connection: AsyncConnection) -> None:
        """Write the rows that were added since the last run."""
        parts = [(one._compiled_for(connection, rows[0]), rows) for one, rows in self._parts]
        self._parts = []
        if connection.dialect.name == "sqlite":
            for compiled, rows in parts:
                await _run(connection, compiled.sql, compiled.parameters(rows), many=True)
        elif parts:
            texts, parameters = zip(*(compiled.part(rows) for compiled, rows in parts), strict=True)
            await _run(connection, _joined(texts), tuple(chain.from_iterable(parameters)))


async def _run(
    connection: AsyncConnection, sql: str, parameters: Any, *, many: bool = False
) -> Sequence[Any]:
    """Run a statement, on SQLite for `many` tuples of parameters, and return its rows."""
    if is_observed(connection):
        result = await connection.exec_driver_sql(sql, parameters)
        return result.all() if result.returns_rows else ()
    driver = driver_of(connection)
    try:
        if connection.dialect.name == "sqlite":
            done = await driver.run("executemany" if many else "execute", sql, parameters)
            return cast(Sequence[Any], done.rows)
        return cast(Sequence[Any], await driver.fetch(sql, *parameters))
    except Exception as error:
        await raise_as_sqlalchemy(connection, error, sql)


@lru_cache(_STATEMENTS)
def _joined(parts: Sequence[tuple[str, int]]) -> str:
    """Return one statement of several, each with its number of parameters."""
    *first, last = [
        _NUMBER.sub(partial(_moved, sum(count for _, count in parts[:position])), text)
        for position, (text, _) in enumerate(parts)
    ]
    named = ", ".join(f"w{number} AS ({text})" for number, text in enumerate(first))
    return f"WITH {named} {last}" if first else last


def _moved(by: int, number: re.Match[str]) -> str:
    return f"${int(number[1]) + by}"


_Values = Callable[[Sequence[Given]], Sequence[Any]]
"""Returns one parameter's value for each row."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement as one dialect has it. `arrays`: the same for many rows, with an array for each
    parameter. `names` are those of the result's columns, `converters` theirs by position."""

    sql: str
    arrays: str | None
    values: Sequence[_Values]
    names: Sequence[str]
    converters: Sequence[tuple[int, Callable[[Any], Any]]]

    def columns(self, rows: Sequence[Given]) -> list[Sequence[Any]]:
        """Return each parameter's values in these rows."""
        return [values(rows) for values in self.values]

    def parameters(self, rows: Sequence[Given]) -> list[tuple[Any, ...]]:
        """Return a tuple of parameters for each row."""
        if not self.values:
            return [()] * len(rows)
        return list(zip(*self.columns(rows), strict=True))

    def part(self, rows: Sequence[Given]) -> tuple[tuple[str, int], Sequence[Any]]:
        """Return what PostgreSQL gets for these rows as a part of `Writes`: the text, with its
        number of parameters, and the parameters."""
        if len(rows) == 1:
            return (self.sql, len(self.values)), self.parameters(rows)[0]
        assert self.arrays is not None, self.sql  # noqa: S101 - it writes rows
        # an UPDATE changes a row once, however often it is in the arrays
        missing = 0 if self.arrays.startswith("INSERT") else _GUESSED - len(rows)
        return (self.arrays, len(self.values)), self.columns([*rows, *[rows[-1]] * missing])

    def converted(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return these rows of the driver with Python's values."""
        if not rows or not self.converters:
            return rows
        found = [list(row) for row in rows]
        for values in found:
            for position, convert in self.converters:
                values[position] = convert(values[position])
        return found


def compile_for(
    statement: Declared, dialect: Dialect, names: Sequence[str] | None = None
) -> _Compiled:
    """Compile a statement; an INSERT for rows with these columns."""
    compiled: Any = statement.compile(dialect=dialect, column_keys=names)
    sql = str(compiled)
    table = statement.table if isinstance(statement, Insert) else None
    values = []
    for name in compiled.positiontup or ():
        if table is not None and name not in (names or ()):
            values.append(_constant(_default_of(table.c[name]), table.c[name].type, dialect))
        elif (bound := compiled.binds[name]).required:
            values.append(_given(name, bound.type, dialect))
        else:
            values.append(_constant(bound.effective_value, bound.type, dialect))
    many = dialect.name == "postgresql" and isinstance(statement, UpdateBase)
    selected: Sequence[Any] = getattr(statement, "selected_columns", ())
    converters = [
        (position, convert)
        for position, column in enumerate(selected)
        if (convert := _result_converter(column.type, dialect)) is not None
    ]
    arrays = _with_arrays(sql) if many else None
    return _Compiled(sql, arrays, values, [column.key for column in selected], converters)


def _with_arrays(sql: str) -> str | None:
    """Return the statement for many rows, whose parameters are arrays. None: it is no INSERT or
    UPDATE of one row."""
    types: dict[int, str] = {}

    def named(found: re.Match[str]) -> str:
        if found[2]:  # a parameter that is there twice has its type at the first place
            types[int(found[1])] = found[2]
        return f"given.p{found[1]}"

    # asyncpg knows arrays of TEXT; it asks the server about those of other types, which takes that
    # some 10 ms for each connection
    text = _PARAMETER.sub(named, sql.replace("::VARCHAR", "::TEXT"))
    arrays = ", ".join(f"${number}::{types[number]}[]" for number in sorted(types))
    aliases = ", ".join(f"p{number}" for number in sorted(types))
    source = f"FROM unnest({arrays}) AS given({aliases})"
    if text.startswith("INSERT ") and text.endswith(")") and " VALUES (" in text:
        into, _, values = text[:-1].partition(" VALUES (")
        return f"{into} SELECT {values} {source}"
    if text.startswith("UPDATE ") and text.count(" WHERE ") == 1:
        before, _, condition = text.partition(" WHERE ")
        return f"{before} {source} WHERE {condition}"
    return None


def _given(name: str, type_: TypeEngine[Any], dialect: Dialect) -> _Values:
    convert = type_.dialect_impl(dialect).bind_processor(dialect)
    if convert is None:
        return lambda rows: [row[name] for row in rows]
    if isinstance(type_, UtcDateTime):
        convert = lru_cache(_TIMES)(convert)
    return lambda rows: [convert(row[name]) for row in rows]


def _constant(value: Any, type_: TypeEngine[Any], dialect: Dialect) -> _Values:
    convert = type_.dialect_impl(dialect).bind_processor(dialect)
    converted = value if convert is None else convert(value)
    return lambda rows: [converted] * len(rows)


def _default_of(column: Any) -> Any:
    default = column.default
    if not isinstance(default, ScalarElementColumnDefault):
        raise TypeError(f"The default of {column} is not a constant; add the column to the rows.")
    return default.arg


def _result_converter(type_: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    convert = type_.dialect_impl(dialect).result_processor(dialect, _FLOAT8)
    if not isinstance(type_, UtcDateTime) or convert is None:
        return convert
    # asyncpg's times are in UTC
    return None if dialect.name == "postgresql" else lru_cache(_TIMES)(convert)


class _Texts(TypeDecorator[Collection[str]]):
    """Several texts: an array on PostgreSQL, of at least this many; JSON on SQLite."""

    impl = Text
    cache_ok = True

    def __init__(self, least: int = 0) -> None:
        super().__init__()
        self.least = least

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        sqlite = dialect.name == "sqlite"
        return dialect.type_descriptor(Text() if sqlite else ARRAY(Text()))

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        texts = list(value or ())
        if dialect.name == "sqlite":
            return json.dumps(texts)
        return texts + texts[-1:] * (self.least - len(texts))


class AnyOf(FunctionElement[bool]):
    """The condition that a column has one of the texts of a parameter. The statement is the same
    for any number of them: an `expanding` parameter makes one for each number, and a server has to
    parse and plan each of these on each connection (0.3 to 1 ms)."""

    inherit_cache = True
    name = "any_of"

    def __init__(self, column: Column[Any], parameter: str) -> None:
        unique = column.primary_key and len(column.table.primary_key) == 1
        super().__init__(column, _bindparam(parameter, type_=_Texts(_GUESSED if unique else 0)))


@compiles(AnyOf, "postgresql")
def _any_of_array(element: AnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column, texts = element.clauses
    return f"{compiler.process(column, **options)} = ANY ({compiler.process(texts, **options)})"


@compiles(AnyOf, "sqlite")
def _any_of_json(element: AnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column, texts = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - no value
