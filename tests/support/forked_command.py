"""Commands of the CLI, run in processes that are forked from one with the modules imported.

A new Python process spends half a second on imports, and the tests run some 400 commands. Each runs
the real `main` with its own arguments, folder, environment and standard streams.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "hookfast.cli",
        "hookfast.cli.remote.deliveries",
        "hookfast.cli.remote.names",
        "hookfast.cli.remote.trigger.send",
        "hookfast.cli.secrets",
        "httpcore2",  # httpx2 imports it with its first client
        "tests.support.forked_command",
    ]
)


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
    streams = folder / f".streams-{os.urandom(4).hex()}"
    streams.mkdir()
    (streams / "0").write_bytes(stdin)
    process = _SERVER.Process(target=_run, args=(arguments, folder, env, streams, terminal))
    process.start()
    try:
        await asyncio.to_thread(process.join, PATIENCE)
        code = process.exitcode
        if code is None:
            raise TimeoutError(f"hookfast {' '.join(arguments)} did not end in {PATIENCE} s")
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
    out = "" if terminal is not None else (streams / "1").read_text()
    return code, out, (streams / "2").read_text()


def _run(
    arguments: tuple[str, ...],
    folder: Path,
    env: dict[str, str],
    streams: Path,
    terminal: str | None,
) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number, flags in (
        (0, os.O_RDONLY),
        (1, os.O_CREAT | os.O_WRONLY),
        (2, os.O_CREAT | os.O_WRONLY),
    ):
        path = streams / str(number)
        opened = os.open(terminal if number == 1 and terminal is not None else path, flags)
        os.dup2(opened, number)
        os.close(opened)
    # multiprocessing closed the original sys.stdin
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if terminal is not None:  # the one of the server expects a file
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["hookfast", *arguments]
    from hookfast.cli import main

    main()
