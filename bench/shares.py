"""Shares of the machine's CPU: control groups (cgroups) of Linux, one for each part of a run.

Both versions are used as they are found: version 2 (`cpu.max`), or the controllers `cpu` and
`cpuacct` of version 1. A group has a quota for each period of 20 ms. A part of a run then works as
on a slower machine: with the kernel's usual 100 ms it would stand still for most of 100 ms and hold
up the others.

Limits that work without groups are none: `taskset` gives whole cores, of which there are too few,
and priorities limit nothing while the machine has time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PERIOD_MICROSECONDS = 20_000
_LEAST_MICROSECONDS = 1_000  # the kernel accepts no smaller quota
_HOW = (
    "It needs control groups that it may create: run it as root on the machine or in a privileged "
    "container, or as `systemd-run --user --scope -p Delegate=yes make scaling`."
)


class NoShares(Exception):
    """Raised where no control group can be created. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group has used since it was created: CPU seconds, periods of 20 ms in which it ran,
    and those in which it was stopped because its quota was used up."""

    seconds: float = 0.0
    periods: int = 0
    throttled: int = 0

    def since(self, before: Self) -> Usage:
        """Return what was used after `before`."""
        return Usage(
            self.seconds - before.seconds,
            self.periods - before.periods,
            self.throttled - before.throttled,
        )


class Share:
    """A group of processes that share a number of cores."""

    def __init__(self, quota: Path, usage: Path) -> None:
        self._quota, self._usage = quota, usage
        self.cores: float | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before a command that make it run in the group, with all that it starts."""
        join = 'echo $$ > "$0" && echo $$ > "$1" && shift && exec "$@"'
        groups = (str(group / "cgroup.procs") for group in (self._quota, self._usage))
        return ("sh", "-c", join, *groups)

    def limit(self, cores: float | None) -> None:
        """Let the group use this many cores, 0.05 or more; all of the run's if None."""
        period = _PERIOD_MICROSECONDS
        allowed = None if cores is None else max(_LEAST_MICROSECONDS, round(cores * period))
        if (self._quota / "cpu.max").exists():
            value = "max" if allowed is None else str(allowed)
            (self._quota / "cpu.max").write_text(f"{value} {period}")
        else:
            (self._quota / "cpu.cfs_period_us").write_text(str(period))
            (self._quota / "cpu.cfs_quota_us").write_text(str(-1 if allowed is None else allowed))
        self.cores = None if allowed is None else allowed / period

    def come_first(self) -> None:
        """Let the group run before others, as far as its quota allows."""
        for file, most in (("cpu.weight", 10_000), ("cpu.shares", 262_144)):
            if (self._quota / file).exists():
                (self._quota / file).write_text(str(most))

    def usage(self) -> Usage:
        """Return what the group has used so far."""
        counts = _counts(self._quota / "cpu.stat")
        if "usage_usec" in counts:
            seconds = counts["usage_usec"] / 1e6
        else:
            seconds = int((self._usage / "cpuacct.usage").read_text()) / 1e9
        return Usage(seconds, counts.get("nr_periods", 0), counts.get("nr_throttled", 0))


class Shares:
    """The groups of a run, by name. `cores` are those of all together."""

    def __init__(self, quota: Path, usage: Path, *, cores: float) -> None:
        self.cores = cores
        self._quota, self._usage = quota, usage
        self._groups: dict[str, Share] = {}
        whole = Share(quota, usage)
        whole.limit(cores)
        whole.come_first()

    def __getitem__(self, name: str) -> Share:
        """Return the group of this name, which is created when it is first used."""
        if name not in self._groups:
            folders = [parent / name for parent in (self._quota, self._usage)]
            for folder in folders:
                folder.mkdir(exist_ok=True)
            self._groups[name] = Share(*folders)
        return self._groups[name]


@contextmanager
def cpu_shares(cores: float) -> Iterator[Shares]:
    """Yield where groups may be created that use this many cores together, and before all others on
    the machine. Removes them afterwards; their processes have to be ended by then. Raises NoShares
    if this process may not create any."""
    parents = _parents(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())
    with ExitStack() as stack:
        try:
            is_v2 = (parents[0] / "cgroup.controllers").exists()
            if is_v2:
                stack.enter_context(_dividing(parents[0]))
            name = f"hookfast-bench-{os.getpid()}"
            ours = {one: stack.enter_context(_folder(one / name)) for one in set(parents)}
            quota, usage = (ours[parent] for parent in parents)
            if is_v2:
                stack.enter_context(_dividing(quota))
            shares = Shares(quota, usage, cores=cores)
        except OSError as error:
            raise NoShares(f"{error.filename}: {error.strerror}. {_HOW}") from None
        yield shares


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    path.mkdir(exist_ok=True)
    try:
        yield path
    finally:
        for group in filter(Path.is_dir, path.iterdir()):
            group.rmdir()
        path.rmdir()


@contextmanager
def _dividing(folder: Path) -> Iterator[None]:
    """Let a group of version 2 divide its CPU while the block lasts. Except for the root, only a
    group without processes may: they are moved into a group of their own meanwhile."""
    control = folder / "cgroup.subtree_control"
    if "cpu" in control.read_text().split():
        yield
        return
    beside = folder / "hookfast-bench-others"
    is_root = not (folder / "cgroup.type").exists()
    if not is_root:
        beside.mkdir()
        _move_all(folder, beside)
    control.write_text("+cpu")
    try:
        yield
    finally:
        control.write_text("-cpu")
        if not is_root:
            _move_all(beside, folder)
            beside.rmdir()


def _move_all(group: Path, into: Path) -> None:
    while pids := (group / "cgroup.procs").read_text().split():
        for pid in pids:
            with suppress(ProcessLookupError):
                (into / "cgroup.procs").write_text(pid)


def _parents(mounts: str, own: str) -> tuple[Path, Path]:
    """Return this process's groups that divide the CPU, and that count it: the same in version 2.
    Raises NoShares if the kernel has neither version."""
    groups: dict[str, str] = {}  # by controller; version 2 has an empty name
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    found: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, mounted, kind, options, *_ = line.split()
        if kind == "cgroup2":
            folder = Path(mounted) / groups.get("", "/").lstrip("/")
            with suppress(OSError):
                if "cpu" in (folder / "cgroup.controllers").read_text().split():
                    return folder, folder
        elif kind == "cgroup":
            for controller in {"cpu", "cpuacct"}.intersection(options.split(",")):
                found[controller] = Path(mounted) / groups.get(controller, "/").lstrip("/")
    if len(found) < 2:
        raise NoShares(f"There is no control group for the CPU in /proc/self/mounts. {_HOW}")
    return found["cpu"], found["cpuacct"]


def _counts(file: Path) -> dict[str, int]:
    return {name: int(value) for name, value in map(str.split, file.read_text().splitlines())}
