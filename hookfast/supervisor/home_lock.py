"""One home, one `up`: a lock on a file in the home folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hookfast.errors import Misconfigured
from hookfast.settings.up_file import LOCK

_LEFTOVERS_SECONDS = 10.0


@contextmanager
def locked(home: Path) -> Iterator[int]:
    """Hold `home` for this process. Raises Misconfigured when another `up` holds it, or it cannot
    be made or written.

    Yields the lock's file descriptor for child processes to inherit: a lock is held as long as any
    of its holders lives, so a new `up` waits (10 s at most) for what a killed one left behind.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"HOOKFAST_HOME, {home}, cannot be made or written: {error.strerror or error}. Set it "
            "to a folder of this user's"
        ) from None
    try:
        _take(fd, home)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield fd
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _take(fd: int, home: Path) -> None:
    give_up = time.monotonic() + _LEFTOVERS_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            if _lives(holder) or time.monotonic() > give_up:
                raise Misconfigured(
                    f"another `hookfast up` (process {holder or '?'}) runs on {home}; stop it, or "
                    "set HOOKFAST_HOME to another folder"
                ) from None
            time.sleep(0.1)
        else:
            return


def _holder(fd: int) -> int | None:
    with suppress(ValueError):
        return int(os.pread(fd, 32, 0))
    return None


def _lives(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
