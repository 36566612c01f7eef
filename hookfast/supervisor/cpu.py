"""The cores of this machine, and the CPU time of processes, as Linux reports them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

_TICK = os.sysconf("SC_CLK_TCK")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # version 2; in a container, its own


def cores(limit: Path = _CGROUP_LIMIT) -> float:
    """Return the cores that this process may use, which a cgroup may limit to a part of one. 1 on
    other systems than Linux, where `Reading` has no figures."""
    if sys.platform != "linux":
        return 1
    found = float(len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):  # no such cgroup, or no limit: `max 100000`
        quota, period = map(int, limit.read_text().split())
        found = min(found, quota / period)
    return found


class Reading:
    """The CPU seconds of some processes, and those in which the machine idled, at one time."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._at = time.monotonic()
        idle, waiting = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
        self._idle = (int(idle) + int(waiting)) / _TICK
        self._spent = {}
        for pid in pids:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                self._spent[pid] = (int(words[11]) + int(words[12])) / _TICK

    def cores_of(self, pid: int | None, *, since: Self) -> float:
        """Return the cores that a process took since an earlier reading; 0 if it is not in both."""
        if pid is None or pid not in self._spent or pid not in since._spent:
            return 0.0
        return (self._spent[pid] - since._spent[pid]) / (self._at - since._at)

    def idle(self, *, since: Self, of: float) -> float:
        """Return how many of the cores that we may use idled since an earlier reading: no more than
        the machine's idle ones, and than the processes have left over."""
        left = of - sum(self.cores_of(pid, since=since) for pid in self._spent)
        return min((self._idle - since._idle) / (self._at - since._at), left)
