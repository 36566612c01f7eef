"""`hookfast doctor`: its output and exit code."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from hookfast.doctor.examination import Check, examine
from hookfast.doctor.finding import ok
from tests.e2e.service_process import environment, free_ports
from tests.integration.doctor.conftest import installation
from tests.support.forked_command import run_forked
from tests.support.seed import KEY

pytestmark = pytest.mark.anyio

_KEY = base64.b64encode(KEY).decode()


async def _run(folder: Path, *options: str, **settings: str) -> tuple[int, str, str]:
    """Run `hookfast doctor`. Return its exit code, output and error output."""
    return await run_forked(
        ("doctor", *options),
        folder=folder,
        env=environment()
        | {"HOOKFAST_HOME": str(folder / "home"), "COLUMNS": "80"}
        | {"TEMPORAL_ADDRESS": f"127.0.0.1:{free_ports(1)[0]}"}
        | settings,
        stdin=b"",
    )


async def test_doctor_reports_each_unreachable_part_as_json_and_exits_with_1(
    tmp_path: Path,
) -> None:
    database, mail = free_ports(2)
    code, out, err = await _run(
        tmp_path,
        "--json",
        HOOKFAST_DATABASE_URL=f"postgresql://hook:hunter2@127.0.0.1:{database}/hookfast",
        HOOKFAST_SMTP_URL=f"smtp://hook:hunter3@127.0.0.1:{mail}",
        HOOKFAST_MAIL_FROM="hooks@example.com",
        HOOKFAST_ENCRYPTION_KEYS=_KEY,
        HOOKFAST_OPERATOR_KEY="hf_" + "hunter4" * 6,
    )
    found = json.loads(out)
    failed = {one["check"] for one in found["findings"] if one["status"] == "fail"}
    assert (code, found["status"]) == (1, "fail")
    assert failed == {"database", "temporal", "mail"}
    assert err == ""
    for secret in ("hunter2", "hunter3", "hunter4", _KEY):
        assert secret not in out
    assert not (tmp_path / "home").exists()


async def test_every_printed_problem_says_what_to_do(tmp_path: Path) -> None:
    runbook = "https://docs.example.com/runbook/"
    code, out, _ = await _run(tmp_path, HOOKFAST_RUNBOOK_URL=runbook)
    lines = out.splitlines()
    assert lines[-1] == f"Runbook: {runbook}"
    wrong = [number for number, line in enumerate(lines) if line.startswith(("FAIL", "warn"))]
    assert wrong
    assert all("→" in lines[number + 1] for number in wrong)
    assert code == 1


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [("PORT", "ninety", "HOOKFAST_PORT"), ("OPERATOR_KEY_FILE", "/nowhere", "/nowhere")],
)
async def test_invalid_setting_is_a_finding(
    tmp_path: Path, name: str, value: str, word: str
) -> None:
    code, out, _ = await _run(tmp_path, "--json", **{f"HOOKFAST_{name}": value})
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["check"], finding["status"]) == (1, "settings", "fail")
    assert word in finding["saw"]


async def test_failing_check_hides_no_other_and_shows_no_error_text(tmp_path: Path) -> None:
    async def broken(*_: object):  # type: ignore[no-untyped-def]
        raise ValueError("postgresql://hook:hunter2@db/hookfast")
        yield

    async def good(*_: object):  # type: ignore[no-untyped-def]
        yield ok("good", "It is well.")

    checks = (
        Check(name="broken", run=broken, todo="–"),
        Check(name="good", run=good, todo="–"),
    )
    findings = await examine(installation(tmp_path, None), checks=checks)
    assert [one.check for one in findings] == ["broken", "good"]
    assert "ValueError" in findings[0].saw
    assert "hunter2" not in str(findings)
