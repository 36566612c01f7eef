"""Ends a command when the process that started it dies, so that nothing outlives a killed `up`.

    python leash.py exec <parent pid> <command> …    Linux: becomes the command
    python leash.py stay <parent pid> <command> …    elsewhere: runs the command and stays beside it

With `exec` the kernel kills the command when its parent dies (`PR_SET_PDEATHSIG`, which survives
the exec). With `stay` standard input is a pipe whose other end only the parent has open, so that it
ends when the parent does. It runs as a file, with the standard library only, to start in 15 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def leashed(*command: str) -> tuple[str, ...]:
    """Return the command that runs `command` on a leash of this process. Start it from the main
    thread (the kernel watches the thread that forks), with a pipe as standard input."""
    mode = "exec" if sys.platform == "linux" else "stay"
    return (sys.executable, "-I", "-S", str(Path(__file__)), mode, str(os.getpid()), *command)


def kill_with_parent(parent: int) -> None:
    """Linux: have this process killed when its parent, the process `parent`, dies. Ends it with 1
    if it has died already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)


def _exec(parent: int, command: list[str]) -> None:
    kill_with_parent(parent)
    os.execvp(command[0], command)  # noqa: S606 - runs without a shell on purpose


def _stay(command: list[str]) -> None:
    child: subprocess.Popen[bytes] | None = None
    signalled_early = False

    def forward_signal(number: int, _: FrameType | None) -> None:
        nonlocal signalled_early
        if child is None:
            signalled_early = True
            return
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    # before the command starts, because its first output may make somebody send SIGTERM
    signal.signal(signal.SIGTERM, forward_signal)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)  # noqa: S603
    if signalled_early:
        child.terminate()

    def kill_after_parent() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        child.kill()

    threading.Thread(target=kill_after_parent, daemon=True).start()
    code = child.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    if sys.argv[1] == "exec":
        _exec(int(sys.argv[2]), sys.argv[3:])
    else:
        _stay(sys.argv[3:])
