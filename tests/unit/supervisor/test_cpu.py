"""The cores that may be used, and the CPU of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookfast.supervisor.cpu import Reading, cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not read")

_SPEND = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("50000 100000", 0.5), ("max 100000", None), ("", None), (None, None)],
)
def test_cgroup_limits_the_cores(tmp_path: Path, limit: str | None, expected: float | None) -> None:
    file = tmp_path / "cpu.max"
    if limit is not None:
        file.write_text(limit)
    assert cores(file) == (expected or len(os.sched_getaffinity(0)))


def test_reading_has_the_cpu_of_a_process_and_what_idled() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SPEND], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pids = [process.pid, 2**22 + 1]  # no system has the second
        before = Reading(pids)
        process.stdout.readline()
        after = Reading(pids)
        process.communicate(b"\n")
    spent = after.cores_of(process.pid, since=before)
    assert spent > 0
    assert after.cores_of(pids[1], since=before) == 0
    assert after.cores_of(None, since=before) == 0
    assert 0 <= after.idle(since=before, of=1000) <= (os.cpu_count() or 1)
    assert after.idle(since=before, of=spent) == pytest.approx(0)
    assert Reading(pids).cores_of(process.pid, since=before) == 0, "it has ended"
