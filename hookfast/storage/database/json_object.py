"""An aggregate that SQLite and PostgreSQL name differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class JsonObject(FunctionElement[str]):
    """The text of a JSON object of a group's rows: a member of this name and value for each."""

    inherit_cache = True
    name = "json_object_of"
    type = Text()

    def __init__(self, member: ColumnElement[Any], value: ColumnElement[Any]) -> None:
        super().__init__(member, value)


@compiles(JsonObject)
def _aggregated(element: JsonObject, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_object_agg({compiler.process(element.clauses, **options)})::text"


@compiles(JsonObject, "sqlite")
def _grouped(element: JsonObject, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_group_object({compiler.process(element.clauses, **options)})"
