"""The leash that ends a part when `up` dies, in the mode of each platform."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hookfast.supervisor import leash
from tests.support.waiting import PATIENCE

# The mode `exec` needs a Linux system call; on other systems `leashed` does not use it.
_LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
_MODES = [pytest.param("exec", marks=_LINUX_ONLY), "stay"]
# A parent that starts `sleep` on a leash, prints its process id and waits to be killed.
_PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-I", "-S", sys.argv[1], sys.argv[2], str(os.getpid()),
     "sh", "-c", "echo $$; exec sleep 60"],
    stdin=subprocess.PIPE,
)
time.sleep(60)
"""


@pytest.mark.parametrize("mode", _MODES)
def test_the_command_dies_with_a_killed_parent(mode: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, leash.__file__, mode], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert _lives(child)

        parent.kill()

        deadline = time.monotonic() + PATIENCE
        while _lives(child):
            assert time.monotonic() < deadline, "the command outlived its parent"
            time.sleep(0.02)


@pytest.mark.parametrize("mode", _MODES)
def test_sigterm_reaches_the_command_and_its_exit_code_comes_back(mode: str) -> None:
    script = "trap 'exit 7' TERM; echo on; while true; do sleep 0.05; done"
    with _started(mode, "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 7


@_LINUX_ONLY
def test_nothing_starts_when_the_parent_has_died_already() -> None:
    command = [sys.executable, "-I", "-S", leash.__file__, "exec", "1", "echo", "started"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")


def _started(mode: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", leash.__file__, mode, str(os.getpid()), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _lives(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True
    )
    return listed.stdout.strip() != "" and not listed.stdout.startswith("Z")
