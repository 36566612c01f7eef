"""The up file: `up.json` in the home folder, with the address of the Temporal that a running
`hookfast up` started.

The settings do not say it, because its ports are those that were free at the start. The file counts
only while `up.lock` is locked: the file of a killed `up` names a port that another program may use
by now.
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
"""The file in the home folder that `up` and all its parts keep locked."""
_FILE = "up.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpFile:
    """The address and namespace of the Temporal that `up` started."""

    temporal_address: str
    temporal_namespace: str


@contextmanager
def written(home: Path, content: UpFile | None) -> Iterator[None]:
    """Keep the file in `home` during the block; with None, only delete the file of a killed `up`.
    The caller has to hold the lock of `home`."""
    path = home / _FILE
    path.unlink(missing_ok=True)
    if content is not None:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(content)))
        new.replace(path)  # so that nobody reads half of it
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read(home: Path) -> UpFile | None:
    """Return the file of the `up` that runs on `home`. None if none runs, if it uses another
    Temporal, or if its files cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        if _is_locked(home / LOCK):
            return UpFile(**json.loads((home / _FILE).read_bytes()))
    return None


def _is_locked(lock: Path) -> bool:
    fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # shared and only for a moment: an `up` that starts meanwhile tries again
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
