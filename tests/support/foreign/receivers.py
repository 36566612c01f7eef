"""Receivers on other people's servers, each a process on this machine. They answer a POST by 200,
and close an idle connection after the server's default time or a given one, in seconds."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import PATIENCE

_HERE = Path(__file__).parent
_USUAL_PLACES = "/usr/local/go/bin:/usr/sbin"  # of Go and nginx; not on every user's PATH


@dataclass(frozen=True, slots=True)
class Foreign:
    """A kind of receiver. `keep_alive` is its default, None if it never closes an idle connection;
    `announced`: its answers say in `Keep-Alive` when it will. `needs` is the program to install."""

    name: str
    run: Callable[[float | None], AbstractContextManager[int]]
    keep_alive: float | None
    announced: bool = False
    needs: str | None = None

    @property
    def missing(self) -> bool:
        """Whether this machine lacks the program."""
        return self.needs is not None and _which(self.needs) is None


@contextmanager
def process_with_port(*command: str) -> Iterator[int]:
    """Run a process that prints its port as its first line, and yield the port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def _uvicorn(keep_alive: float | None) -> AbstractContextManager[int]:
    return process_with_port(sys.executable, *_script("uvicorn_receiver.py", keep_alive))


def _http_server(keep_alive: float | None) -> AbstractContextManager[int]:
    return process_with_port(sys.executable, *_script("http_server_receiver.py", keep_alive))


def _node(keep_alive: float | None) -> AbstractContextManager[int]:
    return process_with_port(_which("node") or "", *_script("receiver.js", keep_alive))


@contextmanager
def _go(keep_alive: float | None) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "receiver"
        build = (_which("go") or "", "build", "-o", str(binary), str(_HERE / "receiver.go"))
        environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOWORK": "off"}
        if not any(environment.get(name) for name in ("GOCACHE", "HOME", "XDG_CACHE_HOME")):
            environment["GOCACHE"] = f"{folder}/cache"
        subprocess.run(build, env=environment, check=True)
        with process_with_port(str(binary), *_seconds(keep_alive)) as port:
            yield port


@contextmanager
def _nginx(keep_alive: float | None) -> Iterator[int]:
    port = _free_port()
    directive = "" if keep_alive is None else f"keepalive_timeout {keep_alive * 1000:.0f}ms;"
    text = (_HERE / "nginx.conf").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nginx.conf"
        file.write_text(text.replace("PORT", str(port)).replace("KEEP_ALIVE", directive))
        command = (_which("nginx") or "", "-p", folder, "-c", str(file), "-e", "stderr")
        with subprocess.Popen(command) as process:
            try:
                _until_listening(port)
                yield port
            finally:
                process.terminate()


FOREIGN = (
    Foreign("uvicorn", _uvicorn, keep_alive=5),
    Foreign("http.server", _http_server, keep_alive=None),
    Foreign("node", _node, keep_alive=5, announced=True, needs="node"),
    Foreign("go", _go, keep_alive=None, needs="go"),
    Foreign("nginx", _nginx, keep_alive=75, needs="nginx"),
)


def _script(name: str, keep_alive: float | None) -> tuple[str, ...]:
    return (str(_HERE / name), *_seconds(keep_alive))


def _seconds(keep_alive: float | None) -> tuple[str, ...]:
    return () if keep_alive is None else (str(keep_alive),)


def _which(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=_USUAL_PLACES)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _until_listening(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")
