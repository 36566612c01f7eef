"""Linux control groups with a limit of memory, as containers have."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A control group. The kernel kills a process of it that needs more than its limit."""

    folder: Path

    def joined(self, *command: str) -> tuple[str, ...]:
        """Return the command that runs this one in the group from its first page on."""
        return ("/bin/sh", "-c", _JOIN, str(self.folder), *command)


@contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Yield a group with this limit, in bytes, without swap. Skips the test on a machine where this
    user may not make one. The processes in it must have ended when the block ends."""
    is_first_version = (_ROOT / "memory").is_dir()
    parent = _ROOT / "memory" if is_first_version else _ROOT
    folder = parent / f"hookfast-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        if is_first_version:
            (folder / "memory.limit_in_bytes").write_text(str(limit))
        else:
            (folder / "memory.max").write_text(str(limit))
            (folder / "memory.swap.max").write_text("0")
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"this user may not limit memory by a control group: {error}")
    try:
        yield MemoryGroup(folder)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError:  # the kernel still cleans up after a process
            time.sleep(0.05)
        else:
            return
    folder.rmdir()
