"""Column types that behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from hookfast.clock import rfc3339, to_utc
from hookfast.strict_json.numbers import with_floats

ByteOrderText = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that sorts by its bytes, as Python sorts text, whatever the database's locale is. Rows that
are locked in this order are locked in the order of a sorted list."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime: `timestamptz` on PostgreSQL, fixed-width RFC 3339 text on SQLite
    (which has no time type; fixed width makes text order time order)."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(27))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return rfc3339(value) if dialect.name == "sqlite" else to_utc(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
        assert isinstance(parsed, datetime)  # noqa: S101 - narrows the driver's Any
        return parsed.astimezone(UTC)


class SettingsJson(TypeDecorator[Any]):
    """JSON of settings that are calculated with, so their numbers are floats. In other columns of
    JSON, which keep what callers wrote, they are decimals."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return with_floats(value)
