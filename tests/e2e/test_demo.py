"""`hookfast demo` without a terminal shows every kind of delivery. In `make test` its delays are
short, see `tests/e2e/quick_demo.py`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.docs.fenced import ROOT, blocks
from tests.e2e.service_process import environment, free_ports
from tests.support.waiting import PATIENCE

_EXPECTED = (
    r"order\.invoice\.paid → ledger: delivered, attempt 1 200",
    r"classroom\.submission\.created → gradebook: retrying, attempt 1 503 .*, next \d\d:",
    r"classroom\.submission\.created → gradebook: recovered, attempt 3 200",
    r"order\.shipment\.dispatched → warehouse: delivered, attempt 1 200 in 2\d{3} ms",
    r"order\.payment\.failed → dunning: dead letter, attempt 4 500",
    r"→ analytics: held, attempt 0",
    r"→ analytics: delivered, attempt 1 200",
    r"order\.cart\.abandoned → old-shop: gone, attempt 1 410",
    r"Look next: why order\.payment\.failed never reached dunning",
    r"http://127\.0\.0\.1:\d+/dashboard/deliveries/dlv_[0-9a-f]{32}",
    r"hookfast deliveries show dlv_[0-9a-f]{32}",
    r"Look next: how the circuit of \w+ works",
    r"[1-9]\d* requests with both signatures verified, 0 rejected",
)


def test_demo_shows_every_kind_of_delivery(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    home.mkdir(mode=0o755)
    _run_until(_EXPECTED, home, then=_emit_as_the_readme_does)

    kept = {path.name: path.stat().st_mode & 0o077 for path in home.rglob("*")}
    assert {"demo.json", "operator.key", "hookfast.log", "temporal.db"} <= kept.keys()
    assert not any(kept.values()), kept
    key = json.loads((home / "demo.json").read_text())["operator_key"]
    assert (home / "operator.key").read_text() == f"{key}\n"
    assert "Traceback" not in (home / "hookfast.log").read_text()


@pytest.mark.slow
def test_demo_with_its_own_delays_shows_every_kind_of_delivery(tmp_path: Path) -> None:
    _run_until(_EXPECTED, tmp_path / "demo", program=("hookfast.cli", "demo"))


@pytest.mark.slow  # `tests/integration/cli/test_demo_setup.py` shows what a second run reuses
def test_second_run_of_the_demo_reuses_its_data(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    _run_until(_EXPECTED[:1], home)
    first = json.loads((home / "demo.json").read_text())

    _run_until((*_EXPECTED[:1], _EXPECTED[7], _EXPECTED[-1]), home)

    assert json.loads((home / "demo.json").read_text()) == first
    assert "Traceback" not in (home / "hookfast.log").read_text()


def _emit_as_the_readme_does(home: Path, url: str) -> None:
    """Run the commands that the README shows for a second terminal."""
    [block] = [one for one in blocks(ROOT / "README.md") if one.mark == "with the demo"]
    script = block.text.replace(".venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["bash", "-euc", script.replace("var/demo", str(home))],
        env=environment() | {"HOOKFAST_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"evt_[0-9a-f]{32}", done.stdout)
    assert "order.invoice.paid" in done.stdout


def _run_until(
    expected: Sequence[str],
    home: Path,
    *,
    program: Sequence[str] = ("tests.e2e.quick_demo", "demo", "--outage-every", "20"),
    then: Callable[[Path, str], None] | None = None,
) -> None:
    """Run the demo until it has printed a match for each pattern, call `then` with its folder and
    its URL, and end it by Ctrl-C."""
    names = ("PORT", "TEMPORAL_PORT", "TEMPORAL_UI_PORT")
    ports = {f"HOOKFAST_{name}": str(port) for name, port in zip(names, free_ports(3), strict=True)}
    with subprocess.Popen(
        [sys.executable, "-m", *program],
        env=environment() | {"HOOKFAST_HOME": str(home)} | ports,
        stdout=subprocess.PIPE,
        text=True,
        umask=0o022,  # the usual one
    ) as process:
        try:
            assert process.stdout is not None
            missing = set(expected)
            deadline = time.monotonic() + 2 * PATIENCE
            for line in process.stdout:
                missing = {pattern for pattern in missing if not re.search(pattern, line)}
                assert time.monotonic() < deadline, f"not shown: {missing}"
                if not missing:
                    break
            assert not missing
            if then is not None:
                then(home, f"http://127.0.0.1:{ports['HOOKFAST_PORT']}")
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()
