"""A database URL with several servers, of which one takes writes; and servers without connections
left."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError

from hookfast.storage.database import doorbell, postgresql_servers
from hookfast.storage.database.availability import is_away
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.database.postgresql_parameters import NO_EFFECT, sort_out
from hookfast.storage.database.postgresql_servers import NoServer, PostgresqlServers
from hookfast.storage.database.unusable import explain
from hookfast.storage.database.watch import check_database
from tests.support.database_proxy import DatabaseProxy
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(2 * PATIENCE)]

SHORT = 2.0


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder for a server's socket, whose path may have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="hookfast-") as folder:
        yield folder


def several(*urls: str) -> str:
    """Return a URL with the servers of all of these."""
    hosts = [str(make_url(url).query["host"]) for url in urls]
    url = make_url(urls[0]).set(query={"host": ",".join(hosts)})
    return url.render_as_string(hide_password=False)


async def use(database: Database) -> int:
    async with database.write() as connection:
        return int((await connection.execute(text("SELECT 1"))).scalar_one())


@asynccontextmanager
async def standby(folder: str) -> AsyncIterator[list[bytes]]:
    """Run a server that lets clients in and reports that it takes no writes."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1024))
        parameters = {b"server_version": b"16.0", b"in_hot_standby": b"on"}
        parameters[b"default_transaction_read_only"] = b"off"
        texts = [name + b"\0" + value + b"\0" for name, value in parameters.items()]
        reports = [b"S" + (len(one) + 4).to_bytes(4, "big") + one for one in texts]
        writer.write(b"R\0\0\0\x08\0\0\0\0" + b"".join(reports) + b"Z\0\0\0\x05I")
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(answer, f"{folder}/.s.PGSQL.5432"):
        yield asked


async def test_standby_is_passed_over_and_a_failover_is_followed(
    postgresql_url: str, folder: str
) -> None:
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(DatabaseProxy(postgresql_url)) for _ in range(2)
        ]
        asked = await stack.enter_async_context(standby(folder))
        at_standby = make_url(postgresql_url).set(query={"host": folder})
        url = several(at_standby.render_as_string(hide_password=False), first.url, second.url)
        database = await stack.enter_async_context(Database(url))
        bell = doorbell_for(database)
        stack.push_async_callback(bell.close)
        await bell.listen()
        assert await use(database) == 1
        assert len(asked) >= 1
        async with asyncio.timeout(PATIENCE):
            await bell.wait(2 * PATIENCE)  # it rings when it begins to listen
        # the server that answered last is asked first
        before = len(asked)
        async with database.read(), database.read(), database.read():
            pass
        assert len(asked) == before

        await first.cut()
        async with asyncio.timeout(PATIENCE):
            assert [await use(database) for _ in range(3)] == [1, 1, 1]
            await bell.wait(2 * PATIENCE)

        await second.cut()
        for _ in range(20):
            with pytest.raises(SQLAlchemyError) as raised:
                await use(database)
            assert is_away(raised.value)
        said = str(explain(database, await failure_of(url)))
        assert f"{folder} takes no writes" in said
        assert "cannot be reached: there is no socket in that folder" in said

        await second.listen()
        async with asyncio.timeout(PATIENCE):
            await until_usable(database)


async def failure_of(url: str) -> NoServer:
    with pytest.raises(NoServer) as raised:
        await PostgresqlServers(url).connect(command_timeout=None)
    return raised.value


async def until_usable(database: Database) -> None:
    while True:
        try:
            await use(database)
        except SQLAlchemyError:
            await asyncio.sleep(0.05)
        else:
            return


async def test_silent_server_leaves_time_for_the_next(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the first one's machine is gone, and nothing refuses its connections."""
    monkeypatch.setattr(postgresql_servers, "CONNECT_SECONDS", SHORT)
    async with DatabaseProxy(postgresql_url) as silent:
        silent.freeze()
        async with Database(several(silent.url, postgresql_url)) as database:
            assert await use(database) == 1
            begun = time.monotonic()
            async with database.read(), database.read():
                pass
            assert time.monotonic() - begun < SHORT / 2  # it is not asked again


@pytest.fixture
async def small(postgresql_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection to the database, which a role `few` may use with two connections."""
    connection = await asyncpg.connect(postgresql_url.replace("+asyncpg", ""))
    await connection.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 2")
    yield connection
    await connection.execute("DROP ROLE few")
    await connection.close()


async def test_process_works_on_with_the_connections_it_has_when_there_are_no_more(
    postgresql_url: str, small: asyncpg.Connection
) -> None:
    url = make_url(postgresql_url).set(username="few").render_as_string(hide_password=False)
    async with Database(url) as database:
        # PostgreSQL counts sessions that begin: of several at once it can reject every one
        await use(database)
        assert await asyncio.gather(*(use(database) for _ in range(40))) == [1] * 40


async def test_full_server_is_away_until_a_connection_is_free(
    postgresql_url: str, small: asyncpg.Connection
) -> None:
    url = make_url(postgresql_url).set(username="few")
    shown = url.render_as_string(hide_password=False)
    foreign = [await asyncpg.connect(shown.replace("+asyncpg", "")) for _ in range(2)]
    async with Database(shown) as database:
        uses = [use(database) for _ in range(18)]
        errors = await asyncio.gather(*uses, return_exceptions=True)
        assert all(isinstance(error, Exception) and is_away(error) for error in errors)
        assert "no connection left" in str(await check_database(database))
        assert isinstance(errors[0], Exception)
        assert "no connection left" in explain(database, errors[0]).saw
        for one in foreign:
            await one.close()
        async with asyncio.timeout(PATIENCE):
            await until_usable(database)


async def test_sessions_that_are_ended_again_and_again_are_replaced(
    postgresql_url: str, small: asyncpg.Connection
) -> None:
    ended = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with Database(postgresql_url) as database:
        bell = doorbell_for(database)
        await bell.listen()
        for _ in range(3):
            await asyncio.gather(*(use(database) for _ in range(5)))
            async with asyncio.timeout(PATIENCE):
                await bell.wait(2 * PATIENCE)  # listens, again
            assert await small.fetchval(ended) >= 2
            async with asyncio.timeout(PATIENCE):
                await until_usable(database)
        await bell.close()


async def test_option_reaches_the_pool_and_the_doorbell(postgresql_url: str) -> None:
    url = make_url(postgresql_url).update_query_dict({"work_mem": "5MB"})
    given = url.render_as_string(hide_password=False)
    async with (
        Database(given) as database,
        database.read() as pooled,
        doorbell._connection(PostgresqlServers(given)) as ringing,
    ):
        shown = text("SHOW work_mem")
        assert [await pooled.scalar(shown), await ringing.fetchval(shown.text)] == ["5MB", "5MB"]


async def test_every_setting_of_a_session_may_be_in_the_url(postgresql_url: str) -> None:
    asked = text(
        "SELECT lower(name) FROM pg_settings "
        "WHERE context IN ('user', 'superuser', 'backend', 'superuser-backend')"
    )
    async with Database(postgresql_url) as database, database.read() as connection:
        of_server = set((await connection.execute(asked)).scalars())
    of_server -= NO_EFFECT.keys()
    assert sort_out(dict.fromkeys(of_server, "x"))[1].keys() == of_server
