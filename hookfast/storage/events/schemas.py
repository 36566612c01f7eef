"""The JSON Schemas of event types, compiled once and applied to each event's data.

Schemas are JSON Schema 2020-12. A reference is resolved inside its own schema and never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import regex
from jsonschema import ValidationError
from referencing.exceptions import Unresolvable
from sqlalchemy import Table, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import FieldError, InvalidInput
from hookfast.events.schema import BoundedSchema, Budget
from hookfast.storage.tables import EventType
from hookfast.strict_json.text import to_text

_EVENT_TYPES: Table = EventType.__table__
_MAX_ERRORS = 20
_MAX_RULE = 120

# The errors of a well-formed schema that cannot be applied: a reference that leads nowhere or in
# circles, an invalid regular expression, arithmetic out of range.
_UNUSABLE = (Unresolvable, RecursionError, re.error, regex.error, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of an event type's schema. `rules` is None for an event type without a schema."""

    updated_at: datetime
    rules: BoundedSchema | None

    def check(self, data: Any, budget: Budget) -> None:
        """Check an event's data. Raises OverBudget, and InvalidInput: `schema_violation` with a
        pointer under `/data` for each of the first 20 errors, or `schema_unusable` if the schema
        itself cannot be applied."""
        if self.rules is None:
            return
        try:
            errors = self.rules.errors(data, budget, most=_MAX_ERRORS)
        except _UNUSABLE as error:
            raise InvalidInput.at(
                "/type",
                "the schema of this event type cannot be applied to this data"
                f" ({type(error).__name__}); fix the schema",
                code="schema_unusable",
            ) from error
        if errors:
            raise InvalidInput(
                "The data does not match the schema of its event type.",
                code="schema_violation",
                errors=tuple(_field_error(error) for error in errors),
            )


_VERSIONS = select(_EVENT_TYPES.c.name, _EVENT_TYPES.c.updated_at).where(
    _EVENT_TYPES.c.name.in_(bindparam("names", expanding=True))
)


class SchemaCache:
    """Caches compiled schemas. One per process. Each look-up reads the current versions from the
    database and compiles only those it has not seen, so a changed schema applies at once."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    async def load(self, connection: AsyncConnection, names: Collection[str]) -> dict[str, Schema]:
        """Return the schemas of those event types that are registered, by name."""
        rows = await connection.execute(_VERSIONS, {"names": list(names)})
        versions = {name: updated_at for name, updated_at in rows}
        stale = [
            name
            for name, updated_at in versions.items()
            if name not in self._known or self._known[name].updated_at != updated_at
        ]
        if stale:
            await self._compile(connection, stale)
        return {name: self._known[name] for name in versions}

    async def _compile(self, connection: AsyncConnection, names: Sequence[str]) -> None:
        c = _EVENT_TYPES.c
        rows = await connection.execute(
            select(c.name, c.updated_at, c.json_schema).where(c.name.in_(names))
        )
        for name, updated_at, schema in rows:
            rules = None if schema is None else BoundedSchema(schema)
            self._known[name] = Schema(updated_at, rules)


def _field_error(error: ValidationError) -> FieldError:
    """Return where the data is wrong and which rule it breaks, without repeating the data."""
    pointer = "/data" + "".join(f"/{_escape(str(part))}" for part in error.absolute_path)
    if error.validator is None:  # the schema `false`
        return FieldError(pointer, "the schema allows nothing here")
    rule = to_text({str(error.validator): error.validator_value}, layout="spaced")[1:-1]
    if len(rule) > _MAX_RULE:
        rule = f"{rule[:_MAX_RULE]}…"
    return FieldError(pointer, f"does not satisfy the schema's {rule}")


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")  # RFC 6901, section 3
