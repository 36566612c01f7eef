"""The JSON Schemas of event types, compiled once and applied to each event's data.

Schemas are JSON Schema 2020-12. A reference is resolved inside its own schema and never fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import FieldError, InvalidInput, join_pointer
from hookfast.events.schema import CompiledSchema, InvalidSchema, Violation
from hookfast.events.schema_keywords import TooSlow
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.tables import EventType

_EVENT_TYPES: Table = EventType.__table__
_MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of an event type's schema. `rules` is None if the event type has no schema, and
    InvalidSchema if this version of Hookfast cannot apply it."""

    updated_at: datetime
    rules: CompiledSchema | InvalidSchema | None

    def check(self, data: Any) -> None:
        """Check an event's data. Raises InvalidInput: `schema_violation` with a pointer under
        `/data` for each of the first 20 errors, `schema_too_slow` if it is not known whether there
        are any, or `schema_unusable` if the schema cannot be applied."""
        if self.rules is None:
            return
        if isinstance(self.rules, InvalidSchema):
            raise InvalidInput.at(
                "/type",
                f"the schema of this event type cannot be applied ({self.rules.reason}); save it"
                " again",
                code="schema_unusable",
            )
        try:
            violations = self.rules.violations(data, most=_MAX_ERRORS)
        except TooSlow:
            raise InvalidInput.at(
                "/data",
                "checking this data against the event type's schema takes too long; send less data,"
                " or simplify the schema (slow checks are most often a `pattern`)",
                code="schema_too_slow",
            ) from None
        if violations:
            raise InvalidInput(
                "The data does not match the schema of its event type.",
                code="schema_violation",
                errors=tuple(_field_error(one) for one in violations),
            )


_VERSIONS = Prepared(
    select(_EVENT_TYPES.c.name, _EVENT_TYPES.c.updated_at).where(
        AnyOf(_EVENT_TYPES.c.name, "names")
    )
)


class SchemaCache:
    """Caches compiled schemas. One per process. Each look-up reads the current versions from the
    database and compiles only those it has not seen, so a changed schema applies at once."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    async def load(self, connection: AsyncConnection, names: Collection[str]) -> dict[str, Schema]:
        """Return the schemas of those event types that are registered, by name."""
        rows = await _VERSIONS.rows(connection, {"names": names})
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
            # up to a second for the largest schemas: in a thread, so that other requests go on
            rules = None if schema is None else await asyncio.to_thread(_compiled, schema)
            self._known[name] = Schema(updated_at, rules)


def _compiled(schema: dict[str, Any] | bool) -> CompiledSchema | InvalidSchema:
    try:
        return CompiledSchema(schema)
    except InvalidSchema as error:
        return error


def _field_error(violation: Violation) -> FieldError:
    return FieldError(join_pointer("/data", *violation.path), violation.detail)
