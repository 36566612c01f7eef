"""The service and the receiver of the documentation's tours, on free ports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import psutil

from tests.e2e.service_process import NO_TLS, environment, eventually, free_ports, lives
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
KEY = "hf_tour_0123456789abcdefghijklmnopqrstuv"


def tour_ports() -> dict[str, str]:
    """Return the ports that the documentation names, each with the free port that replaces it."""
    return dict(
        zip(("8080", "9000", "7233", "8233"), (str(port) for port in free_ports(4)), strict=True)
    )


def on_ports(script: str, ports: dict[str, str]) -> str:
    """Return the script with the documentation's ports replaced."""
    for named, taken in ports.items():
        script = script.replace(f"127.0.0.1:{named}", f"127.0.0.1:{taken}")
    return script


@contextmanager
def service(folder: Path, ports: dict[str, str], **more: str) -> Iterator[None]:
    """Run `hookfast up` as the tours do, with its data in the folder and `more` settings, and check
    that SIGTERM ends all of its processes."""
    settings = {
        "HOOKFAST_HOME": str(folder / "var"),
        "HOOKFAST_OPERATOR_KEY": KEY,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_PORT": ports["8080"],
        "HOOKFAST_TEMPORAL_PORT": ports["7233"],
        "HOOKFAST_TEMPORAL_UI_PORT": ports["8233"],
    } | more
    log = folder / "up.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "hookfast.cli", "up"],
            env=environment() | settings,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert "is ready" in process.stdout.readline(), log.read_text()
            yield
            parts = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            assert process.wait(timeout=PATIENCE) == 0, log.read_text()
            assert not [part for part in parts if lives(part.pid)]
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()


@contextmanager
def receiver(folder: Path, port: str) -> Iterator[Path]:
    """Run `docs/examples/receiver.py`, and return the file with its output."""
    output = folder / "receiver.log"
    example = ROOT / "docs/examples/receiver.py"
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(example), port, "var/tour/endpoint.json"],
                cwd=folder,
                stdout=stack.enter_context(output.open("w")),
            )
        )
        stack.callback(process.kill)
        eventually(lambda: _answers(f"http://127.0.0.1:{port}/"))
        yield output


def _answers(url: str) -> bool:
    with suppress(httpx2.TransportError):
        httpx2.get(url, trust_env=False, verify=NO_TLS)
        return True
    return False
