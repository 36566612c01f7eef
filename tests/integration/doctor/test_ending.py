"""Commands end, whatever Temporal does. A request that was given up just before the end of a
process made every fifth one hang for ever, in a thread of Temporal's client."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from hookfast.doctor.examination import Check, examine_within
from hookfast.doctor.finding import ok
from tests.e2e.service_process import environment
from tests.integration.doctor.conftest import installation
from tests.support.unhealthy_temporal import Manner, unhealthy_temporal

pytestmark = pytest.mark.anyio

_LONGEST_SECONDS = 180.0

_GIVES_UP = """
import asyncio, os
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from hookfast.process import run_and_end, run_async

async def main():
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], lazy=True)
    try:
        async with asyncio.timeout(0.2):
            await client.workflow_service.get_system_info(GetSystemInfoRequest())
    except (TimeoutError, RuntimeError):
        print("given up")

run_and_end(lambda: run_async(main()))
"""


async def _run(address: str, home: Path, arguments: tuple[str, ...]) -> tuple[int | None, str]:
    """Run Python with these arguments. Return its exit code and output; None if it hangs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env=environment() | {"HOOKFAST_HOME": str(home), "TEMPORAL_ADDRESS": address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None, ""
    return process.returncode, out.decode()


async def test_process_that_has_given_up_a_request_to_temporal_ends(tmp_path: Path) -> None:
    with unhealthy_temporal("silent") as address:
        ended = await asyncio.gather(
            *(_run(address, tmp_path, ("-c", _GIVES_UP)) for _ in range(3))
        )
    assert ended == [(0, "given up\n")] * 3


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("manner", ["silent", "flapping"])
async def test_doctor_ends_two_hundred_times(manner: Manner, tmp_path: Path) -> None:
    program = str(Path(__file__).with_name("many_doctors.py"))
    with unhealthy_temporal(manner) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, program, "200", "20", str(tmp_path)),
            env=environment() | {"HOOKFAST_HOME": str(tmp_path), "TEMPORAL_ADDRESS": address},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    runs = [json.loads(line) for line in out.splitlines()]
    print(f"{manner}: {len(runs)} runs, the slowest took {max(run[2] for run in runs):.1f} s")

    assert len(runs) == 200
    assert {code for _, code, _ in runs} == {1}
    for number, _, _ in runs:
        found = json.loads((tmp_path / f"{number}.json").read_text())["findings"]
        (temporal,) = [one for one in found if one["check"] == "temporal"]
        assert temporal["status"] == "fail"


@pytest.mark.slow
async def test_migrate_ends_while_temporal_is_silent(tmp_path: Path) -> None:
    with unhealthy_temporal("silent") as address:
        ended = await asyncio.gather(
            *(_run(address, tmp_path, ("-m", "hookfast.cli", "migrate")) for _ in range(8))
        )
    assert {code for code, _ in ended} == {0}


def test_check_that_blocks_its_event_loop_hides_no_finished_one(tmp_path: Path) -> None:
    async def good(*_: object):  # type: ignore[no-untyped-def]
        yield ok("good", "It is well.")

    async def blocking(*_: object):  # type: ignore[no-untyped-def]
        time.sleep(5.0)  # noqa: ASYNC251 - it blocks the event loop on purpose
        yield ok("blocking", "It answered.")

    checks = (
        Check(name="good", run=good, todo="–"),
        Check(name="blocking", run=blocking, todo="Restart it."),
    )
    found = examine_within(1.0, installation(tmp_path, None), checks=checks)

    assert [(one.check, one.status, one.todo) for one in found] == [
        ("good", "ok", None),
        ("blocking", "fail", "Restart it."),
    ]
