"""The end of a process whose stop takes too long."""

from __future__ import annotations

import subprocess
import sys

STUCK = """
import time
from datetime import timedelta
from hookfast.process import end_within
end_within(timedelta(seconds=0.2))
time.sleep(600)
"""


def test_process_that_does_not_stop_in_time_ends_and_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0
    assert "did not stop in time" in done.stdout + done.stderr
