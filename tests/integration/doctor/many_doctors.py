"""`hookfast doctor`, many times, in forks of one process with the modules imported.

    python tests/integration/doctor/many_doctors.py TIMES AT_ONCE FOLDER

A new process spends two seconds of CPU on imports. Each fork runs the real `main`; if that
returned, the fork would end as any Python process does, by the interpreter's finalisation. Its
output goes to a file in FOLDER; one line for each fork has its number, exit code and seconds. A
fork that takes too long is killed, and its exit code is -9.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import hookfast.cli
import hookfast.cli.doctor

assert hookfast.cli.doctor

LONGEST_SECONDS = 180.0
"""A doctor takes at most 40 seconds, and many of them share a busy machine."""


def _become(number: int, folder: Path) -> None:
    """Let this process run `hookfast doctor`."""
    output = os.open(folder / f"{number}.json", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["hookfast", "doctor", "--json"]
    hookfast.cli.main()


def _run(times: int, at_once: int, folder: Path) -> None:
    running: dict[int, tuple[int, float]] = {}
    left = list(range(times))
    while left or running:
        while left and len(running) < at_once:
            number = left.pop()
            child = os.fork()
            if child == 0:
                _become(number, folder)
                return
            running[child] = number, time.monotonic()
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            number, began = running.pop(ended)
            code = os.waitstatus_to_exitcode(status)
            print(json.dumps([number, code, time.monotonic() - began]), flush=True)
            continue
        for child, (_, began) in running.items():
            if time.monotonic() - began > LONGEST_SECONDS:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    _run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
