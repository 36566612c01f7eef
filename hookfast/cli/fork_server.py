"""`python -m hookfast.cli.fork_server`: imports the code of the API and the worker once, and forks
the processes of `up` that run it.

It has no threads, no event loop and no connection: none would survive a fork. The order, a message
on the socket whose file descriptor is its argument, comes from `hookfast.supervisor.forks`.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from hookfast.process import lasting_imports, run_and_end
from hookfast.supervisor.leash import kill_with_parent

_ORDER_BYTES = 65_536
_IMPORTED = (
    "hookfast.cli.api",
    "hookfast.cli.database",
    "worker",
    "anyio.to_thread",
    "httpcore2",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
)


def main() -> None:
    """Fork a process for each order, until the supervisor closes the socket or dies."""
    control = socket.socket(fileno=int(sys.argv[1]))
    supervisor = os.getppid()
    with lasting_imports():
        import_parts()
    with suppress(ConnectionError):  # it gave up its last order
        while order := control.recv(_ORDER_BYTES):
            known, tell = os.pipe()
            middle = os.fork()
            if middle == 0:
                _fork_again(json.loads(order), control, supervisor, tell)
            os.close(tell)
            os.waitpid(middle, 0)
            if not os.read(known, 1):  # the supervisor would wait for an answer for ever
                control.send(json.dumps({"error": "a fork ended before its command"}).encode())
            os.close(known)


def import_parts() -> None:
    """Import what the API and the worker run, also what they import late."""
    for module in _IMPORTED:
        importlib.import_module(module)
    from sqlalchemy.orm import configure_mappers

    from hookfast.sender.tls import default_ssl_context

    configure_mappers()
    default_ssl_context()  # which they keep
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"{threads} threads run after the imports; forks would have only one")


def _fork_again(
    order: dict[str, Any], control: socket.socket, supervisor: int, tell: int
) -> NoReturn:
    """Fork once more and end, so that the fork becomes a child of the supervisor, which is the
    subreaper of its descendants. The fork writes to `tell` once the supervisor knows it."""
    middle = os.getpid()
    try:
        fork = os.fork()
    except OSError:
        os._exit(1)
    if fork == 0:
        run_and_end(lambda: _run(order, control, supervisor, middle, tell))
    os._exit(0)


def _run(
    order: dict[str, Any], control: socket.socket, supervisor: int, middle: int, tell: int
) -> None:
    """Run the order's command, `python -m`, with its file descriptors and environment."""
    os.setsid()
    while os.getppid() == middle:
        time.sleep(0.001)
    kill_with_parent(supervisor)
    # the supervisor knows this process before it does anything
    try:
        control.send(json.dumps({"pid": os.getpid()}).encode())
    except ConnectionError:
        sys.exit(1)  # it gave up this order
    os.write(tell, b"\n")
    stdout, stderr = order["outputs"]
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in order["fds"]:
            with suppress(OSError):  # the listing's own, which is closed already
                os.close(fd)
    os.environ.update(order["environment"])
    command = order["command"]
    _show_as(command)
    sys.argv = command[command.index("-m") + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _show_as(command: Sequence[str]) -> None:
    """Let `ps` show this command, as far as there is room: overwrite the arguments of the fork
    server where they are (`arg_start` and `arg_end` of proc(5)), as setproctitle(3) does. The last
    byte, which is not zero, says so."""
    numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(numbers[45]), int(numbers[46])
    if start:  # 0 where the system hides it
        room = end - start - 2
        title = " ".join(command).encode(errors="surrogateescape")[:room]
        ctypes.memmove(start, title.ljust(room + 1, b"\0") + b"\1", room + 2)


if __name__ == "__main__":
    main()
