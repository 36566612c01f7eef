"""Keeps the tests' temporary files in memory where the system has room for them.

Creating, syncing and deleting files on a disk takes CPU, and tests wait for it. No test checks what
survives a power failure.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

_FOLDER = Path("/dev/shm")  # noqa: S108 - Linux's file system in memory; files have names of their own
_NEEDED = 4 << 30
"""Bytes that must be free; a run of the whole suite uses up to 0.8 GB."""


def use() -> None:
    """Let this process and its children create temporary files in memory, unless TMPDIR is set."""
    if "TMPDIR" not in os.environ and _usable():
        tempfile.tempdir = os.environ["TMPDIR"] = str(_FOLDER)


def _usable() -> bool:
    """Whether the folder exists, has room, and may hold the programs that some tests install."""
    if not os.access(_FOLDER, os.W_OK):
        return False
    state = os.statvfs(_FOLDER)
    free = min(state.f_bavail * state.f_frsize, psutil.virtual_memory().available)
    return free >= _NEEDED and not state.f_flag & os.ST_NOEXEC
