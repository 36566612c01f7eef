"""Commands of the CLI, run in processes that are forked from one with the modules imported.

A new Python process spends half a second on imports, and the tests run some 400 commands. Each runs
the real `main` with its own arguments, folder, environment and standard streams.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.waiting import PATIENCE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "hookfast.cli",
        "hookfast.cli.remote.deliveries",
        "hookfast.cli.remote.listen.session",
        "hookfast.cli.remote.names",
        "hookfast.cli.remote.trigger.send",
        "hookfast.cli.secrets",
        "httpcore2",  # httpx2 imports it with its first client
        "tests.support.forked_command",
    ]
)


class ForkedCommand:
    """A running command with a stream for its input, output and errors, like asyncio's `Process`.

    `communicate` closes the streams, so each test calls it at the end.
    """

    def __init__(
        self,
        process: multiprocessing.process.BaseProcess,
        streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> None:
        self._process = process
        self._streams = streams
        (_, self.stdin), (self.stdout, _), (self.stderr, _) = streams

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int | None:
        await asyncio.to_thread(self._process.join)
        return self.returncode

    async def communicate(self, stdin: bytes = b"") -> tuple[bytes, bytes]:
        """Send the last input, and return the rest of the output and of the errors, once the
        command has ended."""
        with suppress(ConnectionError):  # it has ended without reading
            self.stdin.write(stdin)
            await self.stdin.drain()
            self.stdin.write_eof()
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        for _, writer in self._streams:
            writer.close()
        return out, err


async def start_forked(
    arguments: tuple[str, ...], *, folder: Path, env: dict[str, str], terminal: str | None = None
) -> ForkedCommand:
    """Start `hookfast <arguments>` in `folder`. With `terminal`, the output goes to this device."""
    pairs = [socket.socketpair() for _ in range(3)]
    theirs = [their for _, their in pairs]
    process = _SERVER.Process(target=_run, args=(arguments, folder, env, theirs, terminal))
    process.start()
    for their in theirs:
        their.close()
    return ForkedCommand(process, [await asyncio.open_connection(sock=ours) for ours, _ in pairs])


async def run_forked(
    arguments: tuple[str, ...],
    *,
    folder: Path,
    env: dict[str, str],
    stdin: bytes,
    terminal: str | None = None,
) -> tuple[int, str, str]:
    """Run `hookfast <arguments>` in `folder`; return its exit code, output and error output. With
    `terminal`, the output goes to this device instead."""
    command = await start_forked(arguments, folder=folder, env=env, terminal=terminal)
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await command.communicate(stdin)
    except TimeoutError:
        message = f"hookfast {' '.join(arguments)} did not end in {PATIENCE} s"
        raise TimeoutError(message) from None
    finally:
        command.kill()
    assert command.returncode is not None
    return command.returncode, out.decode(), err.decode()


def _run(
    arguments: tuple[str, ...],
    folder: Path,
    env: dict[str, str],
    streams: list[socket.socket],
    terminal: str | None,
) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    if terminal is not None:
        os.dup2(os.open(terminal, os.O_WRONLY), 1)
    # as Python does when it starts
    encoding = env.get("PYTHONIOENCODING")
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False
    )
    sys.argv = ["hookfast", *arguments]
    from hookfast.cli import main

    main()
