"""Allows one `up` per home folder, by a lock on a file in it."""

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
    """Lock `home` for this process. Raises Misconfigured if another `up` has locked it, or the
    folder cannot be created or written.

    Yields the lock's file descriptor for child processes to inherit. The lock lasts as long as any
    process that inherited it, so a new `up` waits up to 10 s for the processes of a killed one.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"HOOKFAST_HOME, {home}, cannot be created or written: {error.strerror or error}. Set "
            "it to a folder that this user may write to"
        ) from None
    try:
        _lock(fd, home)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield fd
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _lock(fd: int, home: Path) -> None:
    deadline = time.monotonic() + _LEFTOVERS_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            if _is_alive(holder) or time.monotonic() > deadline:
                raise Misconfigured(
                    f"another `hookfast up` (process {holder or '?'}) uses {home}; stop it, or set "
                    "HOOKFAST_HOME to another folder"
                ) from None
            time.sleep(0.1)
        else:
            return


def _holder(fd: int) -> int | None:
    with suppress(ValueError):
        return int(os.pread(fd, 32, 0))
    return None


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        with suppress(PermissionError):  # it is another user's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
