"""A file system of its own that a test can fill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A folder on its own disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        """Free the space."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a disk of this size at `folder`. Skips the test where that is not allowed."""
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux may mount a disk")
    options = ("-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "hookfast-test")
    if subprocess.run(["mount", *options, str(folder)], check=False).returncode != 0:
        pytest.skip("this container may not mount a disk")
    try:
        yield SmallDisk(folder)
    finally:
        # lazily: a connection that is still being closed keeps a file open
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
