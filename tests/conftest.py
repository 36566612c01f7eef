"""Fixtures that every test can use: SQLite files and a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings as hypothesis_settings

from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from tests.support import costs, known_types, log_lines, memory_disk, one_dialect, postgresql
from tests.support.event_loop import chosen_loop, on_loop_of
from tests.support.order import order_for_workers
from tests.support.postgresql import PostgresqlServer
from tests.support.time_limit import cancelled_after, time_limit_of
from tests.support.variants import mark_second_variants

# A shell starts background jobs with SIGINT ignored, and child processes inherit that. The commands
# tested here must react to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

memory_disk.use()
one_dialect.use()
known_types.use()

gc.disable()  # until the tests are collected
# Then a collection visits what one test or a few have created. With Python's own thresholds, 700
# objects and ten collections of the youngest, an eighth of the CPU of all tests went into them;
# with 20,000 objects, the tests of the API took 7 % more than with these, and 10 MB less.
_GC_THRESHOLDS = (100_000, 50, 100)

# No deadline: the time of one example depends more on the load of the machine than on the code.
# Every run has the same examples, so that a failure comes from the change and not from chance.
EXAMPLES = int(os.environ.get("HOOKFAST_EXAMPLES", "20"))
hypothesis_settings.register_profile(
    "hookfast", deadline=None, derandomize=True, max_examples=EXAMPLES
)
hypothesis_settings.load_profile("hookfast")
# `make fuzz` runs as many examples as the variable says, new ones in every run
if FUZZ_EXAMPLES := int(os.environ.get("HOOKFAST_FUZZ", "0")):
    hypothesis_settings.register_profile(
        "fuzz", deadline=None, max_examples=FUZZ_EXAMPLES, print_blob=True
    )
    hypothesis_settings.load_profile("fuzz")


# JSON, as in the product: rendering for a terminal takes ten times as long.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        log_lines.check_logged,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str),
    ]
)


class _CheckLibraryLines(logging.Handler):
    """Checks the lines of libraries, which are logged as they are. Those of the receiver package
    are in its user's log, and name the address that its user gave."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "hookfast.receiver":
            log_lines.found.extend(log_lines.privacy_faults(self.format(record)))


logging.getLogger().addHandler(_CheckLibraryLines(logging.INFO))


def pytest_configure(config: pytest.Config) -> None:
    """Measure what each test costs, if asked for."""
    if folder := os.environ.get(costs.FOLDER):
        config.pluginmanager.register(costs.Costs(Path(folder)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that logged a line which does not fit the schema, or has something private."""
    yield
    faults, log_lines.found[:] = list(log_lines.found), []
    assert not faults, "\n".join(faults[:20])


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the selection by `-m`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark second variants as slow, and order the tests for the workers."""
    mark_second_variants(items)
    yield
    items[:] = order_for_workers(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Collect garbage again, but not among what the collected tests and imported modules hold:
    together that took a tenth of the suite's CPU."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before anyio's hook, which runs the test
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Check the event loop that an async test chooses, and cancel a test that does not end within
    its time limit."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return
    if loop := chosen_loop(pyfuncitem):
        pyfuncitem.obj = on_loop_of(loop, pyfuncitem.obj)
    if limit := time_limit_of(pyfuncitem):
        pyfuncitem.obj = cancelled_after(pyfuncitem.obj, limit)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy: a copy takes 1 ms, running the migrations 100 ms."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(_migrate(f"sqlite+aiosqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this run, for all its test processes."""
    several = "PYTEST_XDIST_WORKER" in os.environ  # then each has its folder in a common one
    own = tmp_path_factory.getbasetemp()
    return own.parent if several else own


@pytest.fixture(scope="session")
def postgresql_server(common_folder: Path) -> Iterator[PostgresqlServer]:
    """The PostgreSQL server of this test process."""
    shared = common_folder if "PYTEST_XDIST_WORKER" in os.environ else None
    with postgresql.postgresql_server(shared) as server:
        yield server


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated, empty SQLite database."""
    path = tmp_path / "hookfast.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The URL of a migrated, empty PostgreSQL database."""
    with postgresql_server.borrowed() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a migrated, empty database: the test runs once on each kind."""
    url = request.getfixturevalue(f"{request.param}_url")
    assert isinstance(url, str)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def blank_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables: the test runs once on each kind."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'blank.db'}"
    else:
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        with server.without_tables() as url:
            yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A `Database` on a migrated, empty database: the test runs once on each kind."""
    async with Database(database_url) as database:
        yield database


async def _migrate(url: str) -> None:
    async with Database(url) as database:
        await migrate(database)
