"""The README's tour works as written: every block runs, in order, in one shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.service_process import environment, eventually
from tests.e2e.tour import ROOT, on_ports, receiver, service, tour_ports

_README = (ROOT / "README.md").read_text()


def test_the_tour_works_as_it_is_written(tmp_path: Path) -> None:
    ports = tour_ports()
    (tmp_path / "var/tour").mkdir(parents=True)
    installed = str(Path(sys.executable).parent)
    blocks = re.findall(r"<!-- tour -->\n```sh\n(.*?)```", _README, re.DOTALL)
    assert len(blocks) == 5
    script = "set -euo pipefail\n" + "\n".join(blocks).replace("$PWD/.venv/bin", installed)
    script = on_ports(script, ports)

    with service(tmp_path, ports), receiver(tmp_path, ports["9000"]) as output:
        ended = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment() | {"HOOKFAST_URL": f"http://127.0.0.1:{ports['8080']}"},
            check=False,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
        eventually(lambda: len(output.read_text().splitlines()) == 3)

    assert "delivered" in ended.stdout
    assert "retrying" in ended.stdout
    assert [line.partition(" ")[2] for line in output.read_text().splitlines()] == [
        "attempt 1: order.invoice.paid, thanks",
        "attempt 1: order.invoice.paid, answering 503",
        "attempt 2: order.invoice.paid, thanks",
    ]
