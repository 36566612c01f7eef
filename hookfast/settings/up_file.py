"""Where the Temporal of a running `hookfast up` is: noted in its home, for others to read.

Its ports are those that were free when it started, so the settings alone do not say. A note counts
only while `up.lock` is held: one that a killed `up` left behind names a port that may by now be
somebody else's.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

LOCK: Final = "up.lock"
"""The file in a home that its `up` and all its parts hold locked."""
_NOTE = "up.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpFile:
    """The Temporal that an `up` started."""

    temporal_address: str
    temporal_namespace: str


@contextmanager
def noted(home: Path, whereabouts: UpFile | None) -> Iterator[None]:
    """Let others know while the block lasts; None takes away what a killed `up` noted. For whoever
    holds the lock of `home`."""
    path = home / _NOTE
    path.unlink(missing_ok=True)
    if whereabouts is not None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(whereabouts)))
        fresh.replace(path)  # nobody reads half of it
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read(home: Path) -> UpFile | None:
    """What the `up` that runs on `home` noted. None where none runs, where it uses a Temporal that
    is not its own, or where its files are not ours to read."""
    with suppress(OSError, ValueError, TypeError):
        if _is_held(home / LOCK):
            return UpFile(**json.loads((home / _NOTE).read_bytes()))
    return None


def _is_held(lock: Path) -> bool:
    fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # for a moment, and shared: an `up` that starts just now tries again
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
