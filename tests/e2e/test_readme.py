"""The README's tour, run as it is written: every block of it, in order, in one shell."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.e2e.service_process import PATIENCE, environment, eventually, free_ports

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text()
_KEY = "hf_tour_0123456789abcdefghijklmnopqrstuv"


@pytest.fixture
def ports() -> dict[str, str]:
    """The ports the README names, and those this test takes instead."""
    return dict(
        zip(("8080", "9000", "7233", "8233"), (str(port) for port in free_ports(4)), strict=True)
    )


def test_the_tour_works_as_it_is_written(tmp_path: Path, ports: dict[str, str]) -> None:
    (tmp_path / "var/tour").mkdir(parents=True)
    temporal = Path(sys.executable).with_name("temporal")
    blocks = re.findall(r"<!-- tour -->\n```sh\n(.*?)```", _README, re.DOTALL)
    assert len(blocks) == 7
    script = "set -euo pipefail\n" + "\n".join(blocks).replace(".venv/bin/temporal", str(temporal))
    for named, taken in ports.items():
        script = script.replace(f"127.0.0.1:{named}", f"127.0.0.1:{taken}")

    with _service(tmp_path, ports), _receiver(tmp_path, ports["9000"]) as said:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        eventually(lambda: len(said.read_text().splitlines()) == 3)

    assert done.stdout.rstrip().endswith("delivered")
    assert '"status": "retrying"' in done.stdout
    assert '"paused"' in done.stdout
    assert [line.partition(" ")[2] for line in said.read_text().splitlines()] == [
        "attempt 1: order.invoice.paid, thanks",
        "attempt 1: order.invoice.paid, answering 503",
        "attempt 2: order.invoice.paid, thanks",
    ]


@contextmanager
def _service(folder: Path, ports: dict[str, str]) -> Iterator[None]:
    settings = {
        "HOOKFAST_HOME": str(folder / "var"),
        "HOOKFAST_OPERATOR_KEY": _KEY,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_PORT": ports["8080"],
        "HOOKFAST_TEMPORAL_PORT": ports["7233"],
        "HOOKFAST_TEMPORAL_UI_PORT": ports["8233"],
    }
    with subprocess.Popen(
        [sys.executable, "-m", "hookfast.cli", "up"],
        env=environment() | settings,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert "is ready" in process.stdout.readline()
            yield
            process.terminate()
            process.wait(timeout=PATIENCE)
        finally:
            process.kill()


@contextmanager
def _receiver(folder: Path, port: str) -> Iterator[Path]:
    said = folder / "receiver.log"
    example = _ROOT / "docs/examples/receiver.py"
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(example), port, "var/tour/endpoint.json"],
                cwd=folder,
                stdout=stack.enter_context(said.open("w")),
            )
        )
        stack.callback(process.kill)
        for _ in range(100):
            try:
                httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False)
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        yield said
