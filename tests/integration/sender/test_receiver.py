"""The test receiver as a process, for tests and benchmarks that need one outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hookfast.sender import Sender
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]


async def test_the_receiver_process_prints_its_port_first(sender: Sender) -> None:
    command = [sys.executable, "-m", "tests.support.receiver", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            url = f"http://127.0.0.1:{port}/fail-first/2"
            outcomes = [
                await sender.post(url, headers={"X-Hook-Id": message}, body=b"", timeout=PATIENCE)
                for message in ("a", "a", "b", "a", "b", "b")
            ]
        finally:
            process.terminate()
    assert [outcome.status_code for outcome in outcomes] == [500, 500, 500, 200, 500, 200]
