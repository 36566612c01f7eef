"""Worker, API and Temporal processes for the tests that kill them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import httpx2
from temporalio.client import Client

from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES, kind_of
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.e2e.service_process import NO_TLS
from tests.support.api_server import api_server
from tests.support.log_lines import check_file
from tests.support.seed import KEY
from tests.support.temporal_server import temporal_binary
from tests.support.waiting import PATIENCE
from worker import running_worker

OPERATOR_KEY = "hf_" + "e" * 40


def environment(
    home: Path, database_url: str, temporal_address: str, **more: str
) -> dict[str, str]:
    """Return the environment of a worker or an API on this database and Temporal."""
    return {
        **os.environ,
        "HOOKFAST_HOME": str(home),
        "HOOKFAST_DATABASE_URL": database_url,
        "HOOKFAST_ENCRYPTION_KEYS": base64.b64encode(KEY).decode(),
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
        "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
        "HOOKFAST_RELAY_LEASE": "2",
        "TEMPORAL_ADDRESS": temporal_address,
        **more,
    }


@asynccontextmanager
async def running(
    *command: str, env: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a child process, and kill it at the end if it still runs."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=dict(env), stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        check_file(log)


def worker(
    env: Mapping[str, str], log: Path
) -> contextlib.AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """Run a worker process."""
    return running(sys.executable, "worker.py", env=env, log=log)


@asynccontextmanager
async def successor(
    env: Mapping[str, str], client: Client, database: Database
) -> AsyncIterator[None]:
    """Run a worker in this process, to take over from a killed worker: that takes a twentieth of
    the CPU of starting a process."""
    with patch.dict(os.environ, env):
        settings = Settings()
    async with running_worker(settings, client, database):
        yield


@asynccontextmanager
async def api(env: Mapping[str, str], log: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Run an API process on the port `HOOKFAST_PORT`, and yield an operator's client for it."""
    async with (
        running(sys.executable, "-m", "hookfast.cli", "api", env=env, log=log),
        _operator(f"http://127.0.0.1:{env['HOOKFAST_PORT']}") as client,
    ):
        yield client


@asynccontextmanager
async def api_in_process(env: Mapping[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    """Run an API in this process, and yield an operator's client for it: that takes a tenth of the
    CPU of starting a process."""
    async with AsyncExitStack() as stack:
        with patch.dict(os.environ, env):
            served = await stack.enter_async_context(api_server(Settings()))
        yield await stack.enter_async_context(_operator(served.url))


def _operator(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        timeout=PATIENCE,
        trust_env=False,
        verify=NO_TLS,
    )


async def run_dying_worker(env: Mapping[str, str], log: Path, *, die_at: str) -> None:
    """Run a worker until it kills itself at this point; see `tests/e2e/dying_worker.py`."""
    command = (sys.executable, "-m", "tests.e2e.dying_worker")
    async with running(*command, env={**env, "DIE_AT": die_at}, log=log) as process:
        ended = await process.wait()
    assert ended == -signal.SIGKILL, f"see {log}"


@asynccontextmanager
async def temporal_process(folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a Temporal dev server that keeps its data in a file and can be killed."""
    attributes = [
        part
        for key in SEARCH_ATTRIBUTES
        for part in ("--search-attribute", f"{key.name}={kind_of(key)}")
    ]
    async with running(
        temporal_binary(),
        *("server", "start-dev", "--ip", "127.0.0.1", "--port", str(port), "--headless"),
        *("--db-filename", str(folder / "temporal.db"), "--log-level", "error"),
        # as `hookfast up` does: it waits for the disk less often
        *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
        *attributes,
        env=os.environ,
        log=folder / "temporal.log",
    ) as process:
        await until_serving(port)
        yield process


async def until_serving(port: int) -> Client:
    """Wait until the Temporal on this port answers, and return a client."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(RuntimeError):
                return await Client.connect(f"127.0.0.1:{port}")
            await asyncio.sleep(0.2)


async def kill(process: asyncio.subprocess.Process) -> None:
    """End the process with SIGKILL, as a crash would, and wait for its end."""
    process.send_signal(signal.SIGKILL)
    await process.wait()
