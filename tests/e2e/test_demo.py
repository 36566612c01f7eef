"""`hookfast demo` without a terminal: everything it promises shows, and a second run goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.service_process import environment, free_ports
from tests.support.waiting import PATIENCE

_PROMISED = (
    r"order\.invoice\.paid → ledger: delivered, attempt 1 200",
    r"classroom\.submission\.created → gradebook: retrying, attempt 1 503 .*, next \d\d:",
    r"classroom\.submission\.created → gradebook: recovered, attempt 3 200",
    r"order\.shipment\.dispatched → warehouse: delivered, attempt 1 200 in 2\d{3} ms",
    r"order\.payment\.failed → dunning: dead letter, attempt 4 500",
    r"→ analytics: held, attempt 0",
    r"→ analytics: delivered, attempt 1 200",
    r"order\.cart\.abandoned → old-shop: gone, attempt 1 410",
    r"[1-9]\d* requests with both signatures verified, 0 refused",
)


def test_every_kind_of_delivery_shows_and_a_second_run_uses_what_the_first_made(
    tmp_path: Path,
) -> None:
    home = tmp_path / "demo"
    _run_until(_PROMISED, home)
    first = json.loads((home / "demo.json").read_text())

    _run_until((*_PROMISED[:1], *_PROMISED[7:]), home)

    assert json.loads((home / "demo.json").read_text()) == first
    assert (home / "demo.json").stat().st_mode & 0o777 == 0o600
    assert "Traceback" not in (home / "hookfast.log").read_text()


def _run_until(promised: Sequence[str], home: Path) -> None:
    """Run the demo until it has printed a match for each pattern, then end it by Ctrl-C."""
    names = ("PORT", "TEMPORAL_PORT", "TEMPORAL_UI_PORT")
    ports = {f"HOOKFAST_{name}": str(port) for name, port in zip(names, free_ports(3), strict=True)}
    with subprocess.Popen(
        [sys.executable, "-m", "hookfast.cli", "demo"],
        env=environment() | {"HOOKFAST_HOME": str(home)} | ports,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            missing = set(promised)
            deadline = time.monotonic() + 2 * PATIENCE
            for line in process.stdout:
                missing = {pattern for pattern in missing if not re.search(pattern, line)}
                assert time.monotonic() < deadline, f"not shown: {missing}"
                if not missing:
                    break
            assert not missing
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()
