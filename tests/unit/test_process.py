"""How a process ends: a command at once, with its output written, whatever its threads wait for;
and a service in time."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

_STUCK_THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(3600,)).start()
"""
_STUCK_LOOKUP = """
import asyncio, threading, time
from hookfast.process import run_async
async def main():
    looking_up = asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
    await asyncio.wait({looking_up}, timeout=0.1)
run_async(main())
"""


def _run(body: str, *, stdout: int | object = subprocess.PIPE) -> tuple[int, str, str]:
    """Run these statements as a command. Return its exit code, output and error output."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    program = f"from hookfast.process import run_and_end\ndef command():\n{lines}\n"
    ended = subprocess.run(
        [sys.executable, "-c", f"{program}run_and_end(command)"],
        stdout=stdout,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("stuck", [_STUCK_THREAD, _STUCK_LOOKUP], ids=["thread", "lookup"])
def test_stuck_thread_does_not_keep_a_command_from_ending(stuck: str) -> None:
    assert _run(f"{stuck}\nprint('done')") == (0, "done\n", "")


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('It is broken.')", 1, "It is broken."),
        ("raise ValueError('x')", 1, "ValueError: x"),
    ],
)
def test_exit_code_and_errors_are_those_of_the_command(body: str, code: int, error: str) -> None:
    got, out, said = _run(f"print('done')\n{body}")
    assert (got, out) == (code, "done\n")
    assert said.rstrip().endswith(error)
    assert bool(said) == bool(error)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        code, _, said = _run("print('done')", stdout=full)
    assert code == 1
    assert "No space left on device" in said


STUCK = """
import time
from datetime import timedelta
from hookfast.stop_timer import end_within
end_within(timedelta(seconds=0.2))
time.sleep(600)
"""


def test_process_that_does_not_stop_in_time_ends_and_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert "did not stop in time" in done.stdout + done.stderr


_BLOCKS = """
import ctypes
from hookfast.process import return_freed_blocks

class Info(ctypes.Structure):
    _fields_ = [(f"f{number}", ctypes.c_size_t) for number in range(10)]

allocator = ctypes.CDLL(None).mallinfo2
allocator.restype = Info
return_freed_blocks(128 * 1024)
large = bytearray(5_000_000)
del large  # from now on, glibc would take blocks of this size from the heap
before = allocator().f3
block = bytearray(2_000_000)
print(allocator().f3 - before)
"""
"""Prints how many blocks more the process has outside its heap."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
def test_large_block_is_returned_to_the_system_when_it_is_freed() -> None:
    code, output, errors = _run(_BLOCKS)
    assert (code, output) == (0, "1\n"), errors
