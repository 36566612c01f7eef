"""Compiles each SQL statement once per test process, and not again for each test's engines.

SQLAlchemy keeps what it has compiled per engine, and tests open thousands of engines for a few
transactions each. Here all of them have the same dialect object, one for each isolation level, and
the same cache, as a server has that runs for weeks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

_COMPILED = 5_000


class _OneDialect(DefaultDialect):
    """A dialect of which each class has one object for each isolation level."""

    _known: ClassVar[dict[str | None, _OneDialect]]
    _compiled: ClassVar[LRUCache[Any, Any]]
    _ready = False

    def __new__(cls, *, isolation_level: str | None = None, **_: Any) -> _OneDialect:
        if "_known" not in cls.__dict__:
            cls._known = {}
            cls._compiled = LRUCache(_COMPILED)
        if isolation_level not in cls._known:
            cls._known[isolation_level] = super().__new__(cls)
        return cls._known[isolation_level]

    def __init__(self, **options: Any) -> None:
        if not self.__dict__:
            super().__init__(**options)

    def initialize(self, connection: Connection) -> None:
        """Ask the first server for its version and settings. All servers of a process are alike."""
        if not self._ready:
            super().initialize(connection)
            self._ready = True

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        engine._compiled_cache = cls._compiled


class Sqlite(_OneDialect, SQLiteDialect_aiosqlite):
    supports_statement_cache = True


class Postgresql(_OneDialect, PGDialect_asyncpg):
    supports_statement_cache = True


def use() -> None:
    """Give these dialects to all engines that are created from now on."""
    registry.register("sqlite.aiosqlite", __name__, "Sqlite")
    registry.register("postgresql.asyncpg", __name__, "Postgresql")
