"""Clocks of single processes that jump while they run, by `libfaketime` (Debian's `faketime`)."""

from __future__ import annotations

from pathlib import Path

INSTALL = "install `faketime` (apt-get install faketime)"


def libfaketime() -> Path | None:
    """Return the library that is loaded into processes. None if it is not installed."""
    folders = (Path("/usr/lib"), Path("/usr/local/lib"))
    found = (one for folder in folders for one in folder.glob("**/faketime/libfaketimeMT.so.1"))
    return next(found, None)


class FakeClock:
    """The wall clock of the processes that get `environment`. Their monotonic clock is right. They
    read `file` once a second, so a jump takes that long. Raises RuntimeError if `libfaketime` is
    not installed."""

    def __init__(self, file: Path) -> None:
        library = libfaketime()
        if library is None:
            raise RuntimeError(INSTALL)
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.set(0)

    @property
    def assignments(self) -> list[str]:
        """The environment as arguments of `env`."""
        return [f"{name}={value}" for name, value in self.environment.items()]

    def set(self, seconds: float) -> None:
        """Set the clock this many seconds ahead of the machine's (negative: behind)."""
        self._file.write_text(f"{seconds:+g}\n")
        self._file.chmod(0o644)
