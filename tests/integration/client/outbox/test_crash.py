"""Relays are killed at every step, and Hookfast is away. Each committed row becomes one event."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.service_process import environment, free_ports
from tests.integration.client.outbox.dying_relay import STEPS
from tests.integration.client.outbox.world import World
from tests.support.api_client import OPERATOR_KEY
from tests.support.log_lines import check_file, lines_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


def environment_of(world: World) -> dict[str, str]:
    return environment() | {
        "HOOKFAST_OUTBOX_DATABASE_URL": world.url,
        "HOOKFAST_URL": world.hookfast.url,
        "HOOKFAST_API_KEY": OPERATOR_KEY,
    }


async def test_relay_killed_between_any_two_steps_neither_loses_nor_repeats_an_event(
    world: World, tmp_path: Path
) -> None:
    expected: list[str] = []
    log = tmp_path / "relay.log"
    with log.open("wb") as output:
        dying = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.client.outbox.dying_relay"),
            env=environment_of(world),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
        )
    assert dying.stdin is not None
    assert dying.stdout is not None
    for step in STEPS:
        expected += [f"{step} 1", f"{step} 2"]
        await world.emit(*expected[-2:])
        await world.emit_and_roll_back(f"{step} rolled back")
        dying.stdin.write(f"{step}\n".encode())
        assert int(await dying.stdout.readline()) == -signal.SIGKILL, log.read_text()
        if step in ("answered", "recorded", "committed"):
            assert await world.events() == expected
        # no claim outlives its relay
        await eventually(world.all_free)
        assert len(await world.rows()) == (0 if step == "committed" else len(expected))
    expected.append("after all")
    await world.emit("after all")
    heard = await world.drain()
    assert [(batch.sent, batch.replayed) for batch in heard.batches] == [(1, 0)]
    dying.stdin.close()
    assert await dying.wait() == 0
    assert await world.events() == expected
    assert await world.rows() == []
    check_file(log)


class Gate:
    """Forwards connections to the API. While it is closed, nothing listens at its URL."""

    def __init__(self, port: int) -> None:
        self._api_port = port
        [self._port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)

    async def close(self) -> None:
        """Cut all connections, also those with a request under way, and accept no more."""
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        to_api = await asyncio.open_connection("127.0.0.1", self._api_port)
        self._open |= {writer, to_api[1]}
        await asyncio.gather(_copy(reader, to_api[1]), _copy(to_api[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Relays:
    """Two relay processes, which can be killed."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self._env = env
        self._log = log
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        with self._log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hookfast.cli", "outbox-relay", "--batch", "10"),
                env=self._env,
                stderr=output,
            )
        self._processes.append(process)

    async def kill_one(self) -> None:
        process = self._processes.pop(random.randrange(len(self._processes)))
        process.kill()
        await process.wait()

    async def stop(self) -> list[int]:
        """Stop them with SIGTERM, and return their exit codes."""
        for process in self._processes:
            process.terminate()
        return [await process.wait() for process in self._processes]


@asynccontextmanager
async def two_relays(env: dict[str, str], log: Path) -> AsyncIterator[Relays]:
    relays = Relays(env, log)
    try:
        await relays.start()
        await relays.start()
        yield relays
    finally:
        codes = await relays.stop()
    assert codes == [0, 0]


@pytest.mark.slow
async def test_two_relays_are_killed_again_and_again_and_hookfast_is_away_for_a_minute(
    world: World, tmp_path: Path
) -> None:
    log = tmp_path / "relays.log"
    expected: list[int] = []
    emitting = True

    async def emit() -> None:
        while emitting:
            expected.append(len(expected))
            await world.emit(expected[-1])
            await world.emit_and_roll_back(-1)
            await asyncio.sleep(0.005)

    gate = Gate(world.served.port)
    await gate.open()
    env = environment_of(world) | {"HOOKFAST_URL": gate.url}
    async with two_relays(env, log) as relays:
        emitter = asyncio.create_task(emit())
        await eventually(world.events)
        for kill in range(12):
            await asyncio.sleep(random.uniform(0, 1))
            await relays.kill_one()
            await world.end_relays_connections()
            await relays.start()
            if kill == 6:
                await gate.close()
                before = len(await world.events())
                await asyncio.sleep(60)
                assert len(await world.events()) == before
                assert await world.rows()
                await gate.open()
        emitting = False
        await emitter
        await eventually(world.is_empty)
    await gate.close()
    assert await world.events() == expected
    check_file(log)
    kinds = [line.get("kind") for line in lines_of(log.read_text())]
    assert "outbox.batch" in kinds
