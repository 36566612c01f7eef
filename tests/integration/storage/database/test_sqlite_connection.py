"""The thread of a SQLite connection whose event loop ends before the thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from hookfast.storage.database.engine import Database
from hookfast.storage.database.sqlite_connection import connector, work
from tests.support.waiting import PATIENCE


@pytest.fixture
def uncaught(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """The uncaught exceptions of threads."""
    errors: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


def _join_threads(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_thread_ends_without_error_when_the_file_cannot_be_opened(
    uncaught: list[BaseException | None], tmp_path: Path
) -> None:
    async def fail() -> None:
        async with Database(f"sqlite+aiosqlite:///{tmp_path}") as database:
            with pytest.raises(OperationalError):
                async with database.read():
                    pass

    before = set(threading.enumerate())
    for _ in range(100):  # whether the thread or the loop ends first is a race
        asyncio.run(fail())
    _join_threads(before)
    assert uncaught == []


def test_thread_ends_without_error_when_a_statement_outlives_its_loop(
    uncaught: list[BaseException | None], tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(connector(str(tmp_path / "a.db"), "BEGIN")())
    begun, closed = threading.Event(), threading.Event()

    def statement() -> None:
        begun.set()
        assert closed.wait(PATIENCE)

    task = loop.create_task(connection._execute(statement))  # type: ignore[no-untyped-call]
    loop.run_until_complete(asyncio.to_thread(begun.wait, PATIENCE))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    connection.stop()  # as SQLAlchemy does with the connection of a cancelled caller
    closed.set()
    _join_threads(before)
    assert uncaught == []


def test_threads_error_while_the_loop_is_open_is_raised() -> None:
    class Faulty:
        def get(self) -> None:
            raise RuntimeError("a fault")

    loop = asyncio.new_event_loop()
    with pytest.raises(RuntimeError, match="a fault"):
        work(loop, Faulty())
    loop.close()
