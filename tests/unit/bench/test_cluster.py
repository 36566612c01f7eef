"""`make cluster` reads compose's files, and finds what its faults did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.evidence import Fault, Request
from bench.chaos.rows import Rows
from bench.chaos.storm import API_KILLED, TEMPORAL_KILLED, WORKER_KILLED
from bench.cluster import build, compose, faults, proxy
from bench.cluster.faults import POSTGRESQL_RESTARTED
from bench.cluster.judgement import Outcome, judge
from bench.cluster.postgresql import newest
from bench.cluster.run import share
from bench.cluster.traffic import Seen

CADDYFILE = (compose.FILES / "proxy" / "Caddyfile").read_text()
PORTS: dict[str, Any] = {
    "apis": ["127.0.0.1:15001", "127.0.0.1:15002"],
    "port": 15003,
    "https_port": 15004,
    "health_port": 15005,
}


def test_versions_and_settings_are_those_of_compose(tmp_path: Path) -> None:
    found = compose.read_compose()

    assert re.fullmatch(r"1\.\d+\.\d+", found.temporal_version)
    assert tuple(map(int, found.caddy_version.split("."))) >= (2, 11, 4)  # the Caddyfile says why
    assert "max_connections=300" in found.postgresql_settings
    assert found.initdb_options == ("--data-checksums",)
    settings = found.environment("api-1", secrets=tmp_path)
    assert settings["HOOKFAST_DATABASE_URL_FILE"] == f"{tmp_path}/database_url"
    assert settings["HOOKFAST_PUBLIC_URL"] == "http://localhost"  # a variable's default
    assert found.environment("temporal", secrets=tmp_path)["NUM_HISTORY_SHARDS"] == "512"


def test_rendered_caddyfile_differs_from_composes_in_addresses_only() -> None:
    before, after = CADDYFILE.splitlines(), proxy.render(CADDYFILE, **PORTS).splitlines()

    changed = [line.strip() for line in after if line not in before]

    assert changed == [
        "default_bind 127.0.0.1",
        "http_port 15003",
        "https_port 15004",
        "reverse_proxy 127.0.0.1:15001 127.0.0.1:15002 {",
        "http://127.0.0.1:15005 {",
    ]
    directives = [line for line in after if not line.strip().startswith("#")]
    assert not re.search(r"api-\d|80\d\d|8443", "\n".join(directives))


def test_caddyfile_with_another_shape_is_not_rendered() -> None:
    with pytest.raises(ValueError, match="0 places in the Caddyfile match"):
        proxy.render(CADDYFILE.replace("admin off", "admin :2019"), **PORTS)


def test_without_go_the_build_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _BUILD.format(folder=str(tmp_path / "var"))],
        capture_output=True,
        text=True,
    )
    assert "Install Go 1.21 or later" in done.stderr
    assert not list((tmp_path / "var").iterdir())


_BUILD = """
from pathlib import Path
from rich.console import Console
from bench.cluster.build import build
from bench.cluster.compose import read_compose
build(read_compose(), Console(), folder=Path("{folder}"))
"""


@pytest.mark.parametrize(
    ("text", "version"), [("go1.26.8\n", (1, 26)), ("go1.21rc2", (1, 21)), ("go1.19", (1, 19))]
)
def test_version_of_go_is_parsed(text: str, version: tuple[int, int]) -> None:
    assert build.go_version(text) == version


def test_newest_postgresql_is_taken() -> None:
    folders = [Path(f"/usr/lib/postgresql/{version}/bin") for version in (9, 17, 15)]
    assert newest(folders) == folders[1]
    assert newest([]) is None


def test_every_event_is_emitted_in_some_row() -> None:
    for total in (0, 5, 4650):
        assert sum(share(total, number, 8) for number in range(8)) == total


def test_a_row_with_two_versions_needs_an_older_one(tmp_path: Path) -> None:
    names = [row.name for row in faults.rows(old=None)]
    assert [row.name for row in faults.rows(old=tmp_path)] == [*names, "two versions"]


# -- what faults did ---------------------------------------------------------------------------


def request(begun: float = 100.0, **given: Any) -> Request:
    fields = {
        "message_id": "dlv_1",
        "attempt": 1,
        "path": "/plain-1",
        "sender": 0,
        "begun": begun,
        "ended": begun + 0.1,
        "status": 200,
    }
    return Request(**fields | given)


def judged(
    requests: list[Request], *killed: Fault, status: str = "delivered", event: str = "evt_1"
) -> Outcome:
    """The outcome of a row with one delivery."""
    seen = Seen(accepted={"evt_1": 1})
    outcome = Outcome("a worker killed", seen, settled=1.0)
    finished = None if status == "retrying" else "2026-01-01"
    row = {"event_id": event, "status": status, "finished_at": finished}
    rows = Rows({"dlv_1": row}, {}, type(seen.answers)([event]))
    judge([outcome], rows, requests, killed)
    return outcome


def test_delivered_once_is_well() -> None:
    outcome = judged([request(status=500), request(103, attempt=2)])
    assert outcome.well
    assert (outcome.delivered, outcome.repeated) == (1, [])


@pytest.mark.parametrize(
    ("fault", "explained"),
    [
        (Fault(WORKER_KILLED, 100.05, 105), True),
        (Fault(WORKER_KILLED, 101, 105), True),  # answered, and not recorded
        (Fault(WORKER_KILLED, 130, 135), False),  # it was recorded long before
        (Fault(WORKER_KILLED, 90, 105), False),
        (Fault(POSTGRESQL_RESTARTED, 95, 105), False),  # its worker keeps the record
        (Fault(API_KILLED, 100.05, 105), False),
        (Fault(TEMPORAL_KILLED, 100.05, 105), False),
    ],
)
def test_only_a_fault_that_prevents_the_record_explains_a_second_delivery(
    fault: Fault, explained: bool
) -> None:
    outcome = judged([request(), request(106)], fault)
    assert outcome.well is explained
    assert outcome.duplicated == ([] if explained else ["dlv_1"])
    assert outcome.repeated == ([f"dlv_1: {fault.kind}"] if explained else [])


def test_lost_stuck_and_twice_stored_events_are_found() -> None:
    assert judged([request()], status="retrying").stuck == ["dlv_1"]
    assert judged([request(status=500)], status="dead").lost == ["dlv_1"]
    assert judged([]).lost == ["dlv_1"]  # delivered, and the receiver never saw it
    stored_twice = judged([request()], event="evt_2")
    assert stored_twice.duplicated == ["dlv_1"]
    assert stored_twice.lost == ["evt_1"]  # and the accepted one is missing


# -- a small run -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1800)  # the first run builds Temporal
def test_a_small_run_on_one_temporal_loses_nothing() -> None:
    parts = ["--temporals", "1", "--apis", "2", "--workers", "2", "--only", "a worker killed"]
    command = [sys.executable, "-m", "bench.cluster", "--events", "60", *parts]
    done = subprocess.run(command, capture_output=True, text=True)
    for missing in ("Install Go", "apt install postgresql"):
        if missing in done.stdout:
            pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was lost, duplicated or stuck." in done.stdout
