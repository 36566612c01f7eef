"""The behaviour of all stores, on real databases and servers."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from hookfast.receiver import (
    Done,
    Fresh,
    IdempotencyStore,
    InProgress,
    LeaseLost,
    Misconfigured,
    RedisStore,
    SqlStore,
)
from tests.integration.receiver.conftest import MakeStore, sqlite_stores

ALL = ["memory", "sqlite", "postgresql", "sqlalchemy", "sqlalchemy-postgresql", "redis"]

every_store = pytest.mark.parametrize("make_store", ALL, indirect=True)

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
AT_ONCE = timedelta(milliseconds=1)


def fresh(store: IdempotencyStore, key: str = "dlv_1", *, lease: timedelta = MINUTE) -> Fresh:
    begun = store.begin(key, lease=lease)
    assert isinstance(begun, Fresh)
    return begun


def fresh_again(store: IdempotencyStore, key: str = "dlv_1") -> Fresh:
    """Begin repeatedly until another claim's lease has expired."""
    while True:
        begun = store.begin(key, lease=MINUTE)
        if isinstance(begun, Fresh):
            return begun


@every_store
def test_a_message_is_fresh_once_then_in_progress_then_done(make_store: MakeStore) -> None:
    claim = fresh(make_store())
    assert make_store().begin("dlv_1", lease=MINUTE) == InProgress()
    make_store().finish(claim, b"\x00\xffbooked", keep=DAY)
    assert make_store().begin("dlv_1", lease=MINUTE) == Done(b"\x00\xffbooked")


@every_store
def test_messages_do_not_affect_each_other(store: IdempotencyStore) -> None:
    store.finish(fresh(store, "dlv_1"), keep=DAY)
    fresh(store, "dlv_2")


@every_store
def test_a_message_with_an_empty_result_is_done(store: IdempotencyStore) -> None:
    store.finish(fresh(store), keep=DAY)
    assert store.begin("dlv_1", lease=MINUTE) == Done(b"")


@every_store
def test_an_abandoned_message_is_fresh_again(store: IdempotencyStore) -> None:
    store.abandon(fresh(store))
    fresh(store)


@every_store
def test_a_message_of_a_dead_worker_is_fresh_after_its_lease(make_store: MakeStore) -> None:
    dead = fresh(make_store(), lease=AT_ONCE)
    assert fresh_again(make_store()).token != dead.token


@every_store
def test_a_worker_that_lost_its_lease_gets_an_error_and_changes_nothing(
    store: IdempotencyStore,
) -> None:
    slow = fresh(store, lease=AT_ONCE)
    quick = fresh_again(store)
    store.abandon(slow)
    assert store.begin("dlv_1", lease=MINUTE) == InProgress()
    with pytest.raises(LeaseLost):
        store.finish(slow, b"slow", keep=DAY)
    store.finish(quick, b"quick", keep=DAY)
    with pytest.raises(LeaseLost):
        store.finish(slow, b"slow", keep=DAY)
    store.abandon(slow)
    assert store.begin("dlv_1", lease=MINUTE) == Done(b"quick")


@every_store
def test_work_finished_after_its_lease_counts_when_nobody_took_over(
    store: IdempotencyStore,
) -> None:
    late = fresh(store, lease=AT_ONCE)
    store.abandon(fresh_again(store))  # the lease has expired, and nobody has the message
    store.finish(late, b"late", keep=DAY)
    assert store.begin("dlv_1", lease=MINUTE) == Done(b"late")


@every_store
def test_a_finished_message_is_remembered_for_the_requested_time(store: IdempotencyStore) -> None:
    store.finish(fresh(store), b"booked", keep=AT_ONCE)
    fresh_again(store)


@every_store
def test_finishing_again_is_harmless_and_a_finished_claim_is_not_abandoned(
    store: IdempotencyStore,
) -> None:
    claim = fresh(store)
    store.finish(claim, b"booked", keep=DAY)
    store.finish(claim, b"booked", keep=DAY)
    store.abandon(claim)
    assert store.begin("dlv_1", lease=MINUTE) == Done(b"booked")


@every_store
def test_exactly_one_of_many_workers_gets_each_message(make_store: MakeStore) -> None:
    workers, messages = 8, 20
    together = threading.Barrier(workers)

    def work(_: int) -> list[str]:
        store = make_store()
        together.wait()
        begun = [store.begin(f"dlv_{n}", lease=MINUTE) for n in range(messages)]
        return [one.key for one in begun if isinstance(one, Fresh)]

    with ThreadPoolExecutor(workers) as pool:
        won = [key for keys in pool.map(work, range(workers)) for key in keys]
    assert sorted(won) == sorted(f"dlv_{n}" for n in range(messages))


@pytest.mark.parametrize("make_store", ["sqlite", "postgresql"], indirect=True)
def test_only_expired_rows_are_purged(make_store: MakeStore) -> None:
    store = make_store()
    assert isinstance(store, SqlStore)
    store.finish(fresh(store, "kept"), keep=DAY)
    working = fresh(store, "working")
    fresh(store, "dead", lease=AT_ONCE)
    store.finish(fresh(store, "old"), keep=AT_ONCE)
    purged = 0
    while purged < 2:  # both expire within a millisecond
        purged += store.purge()
    assert purged == 2
    assert store.begin("kept", lease=MINUTE) == Done(b"")
    assert store.begin("working", lease=MINUTE) == InProgress()
    store.finish(working, keep=DAY)


@pytest.mark.parametrize("commits", [True, False])
def test_effect_and_record_are_committed_together_or_not_at_all(
    tmp_path: Path, commits: bool
) -> None:
    store = sqlite_stores(tmp_path)()
    assert isinstance(store, SqlStore)
    _effect_and_record(store, sqlite3.connect(tmp_path / "receipts.db"), commits=commits)


@pytest.mark.parametrize("commits", [True, False])
def test_effect_and_record_are_committed_together_in_postgresql(
    postgresql: str, commits: bool
) -> None:
    store = SqlStore(lambda: psycopg.connect(postgresql), paramstyle=psycopg.paramstyle)
    store.create_table()
    _effect_and_record(store, psycopg.connect(postgresql), commits=commits)


def _effect_and_record(store: SqlStore, connection: Any, *, commits: bool) -> None:
    claim = fresh(store)
    try:
        connection.execute("CREATE TABLE booked (amount INTEGER)")
        connection.commit()
        connection.execute("INSERT INTO booked VALUES (7)")
        store.finish_in(connection, claim, result=b"booked", keep=DAY)
        connection.commit() if commits else connection.rollback()
        booked = connection.execute("SELECT count(*) FROM booked").fetchone()[0]
    finally:
        connection.close()
    assert booked == int(commits)
    expected: Any = Done(b"booked") if commits else InProgress()
    assert store.begin("dlv_1", lease=MINUTE) == expected


def test_a_table_may_have_another_name_and_schema(postgresql: str) -> None:
    with psycopg.connect(postgresql) as connection:
        connection.execute("CREATE SCHEMA hooks")
    store = SqlStore(
        lambda: psycopg.connect(postgresql), paramstyle=psycopg.paramstyle, table="hooks.receipts"
    )
    store.create_table()
    store.create_table()
    store.finish(fresh(store), keep=DAY)
    assert store.begin("dlv_1", lease=MINUTE) == Done(b"")


@pytest.mark.parametrize("table", ["", "a b", "x; DROP TABLE y", "a.b.c", 'a"b'])
def test_an_invalid_table_name_is_rejected(table: str) -> None:
    with pytest.raises(Misconfigured):
        SqlStore(lambda: sqlite3.connect(":memory:"), table=table)


def test_an_unknown_paramstyle_is_rejected() -> None:
    with pytest.raises(Misconfigured, match="paramstyle"):
        SqlStore(lambda: sqlite3.connect(":memory:"), paramstyle="named")


def test_a_connection_is_closed_when_the_database_fails(tmp_path: Path) -> None:
    connections: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        connections.append(sqlite3.connect(tmp_path / "empty.db"))
        return connections[-1]

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        SqlStore(connect).begin("dlv_1", lease=MINUTE)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].cursor()


def test_a_lost_claim_records_nothing_even_in_a_transaction_that_is_committed(
    tmp_path: Path,
) -> None:
    store = sqlite_stores(tmp_path)()
    assert isinstance(store, SqlStore)
    slow = fresh(store, lease=AT_ONCE)
    quick = fresh_again(store)
    connection = sqlite3.connect(tmp_path / "receipts.db")
    try:
        with pytest.raises(LeaseLost):
            store.finish_in(connection, slow, result=b"slow")
        connection.commit()
    finally:
        connection.close()
    assert store.begin("dlv_1", lease=MINUTE) == InProgress()
    store.finish(quick, keep=DAY)


def test_a_message_without_a_claim_cannot_be_finished(tmp_path: Path) -> None:
    store = sqlite_stores(tmp_path)()
    assert isinstance(store, SqlStore)
    with pytest.raises(Misconfigured, match="has no store"):
        store.finish_in(None, None)


def test_redis_deletes_expired_messages_itself(redis_client: redis.Redis) -> None:
    store = RedisStore(redis_client, prefix="mine:")
    claim = fresh(store)
    assert 0 < redis_client.pttl("mine:dlv_1") <= 60_000
    store.finish(claim, keep=DAY)
    assert 60_000 < redis_client.pttl("mine:dlv_1") <= 86_400_000


def test_a_redis_client_that_decodes_responses_is_rejected(redis_server: str) -> None:
    with (
        redis.Redis(unix_socket_path=redis_server, decode_responses=True) as client,
        pytest.raises(Misconfigured, match="decode_responses"),
    ):
        RedisStore(client)
