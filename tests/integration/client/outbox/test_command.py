"""The commands that relay, as processes."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest

from hookfast_client.outbox import create_sql
from tests.e2e.service_process import NO_TLS, environment
from tests.integration.client.outbox.world import World
from tests.support.api_client import OPERATOR_KEY
from tests.support.forked_command import run_forked
from tests.support.log_lines import check_file, lines_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


def environment_of(world: World) -> dict[str, str]:
    return environment() | {
        "HOOKFAST_OUTBOX_DATABASE_URL": world.url,
        "HOOKFAST_URL": world.served.url,
        "HOOKFAST_API_KEY": OPERATOR_KEY,
    }


async def run(world: World, folder: Path, *arguments: str, **env: str) -> tuple[int, str, str]:
    return await run_forked(
        ("outbox-relay", *arguments), folder=folder, env=environment_of(world) | env, stdin=b""
    )


async def test_once_sends_what_is_there_and_logs_it(world: World, tmp_path: Path) -> None:
    await world.emit("one", "two")
    await world.emit("unknown", type="no.such.type")
    code, out, err = await run(world, tmp_path, "--once", "--keep", "7d")
    assert (code, out) == (0, "2 events sent, 1 row rejected.\n")
    assert await world.events() == ["one", "two"]
    assert len(await world.rows("event_id IS NOT NULL")) == 2
    (tmp_path / "log").write_text(err)
    check_file(tmp_path / "log")
    kinds = [line["kind"] for line in lines_of(err) if "kind" in line]
    assert kinds == ["outbox.batch", "outbox.rejected"]
    assert {line["process"] for line in lines_of(err)} == {"outbox-relay"}


async def test_what_cannot_work_is_a_sentence_without_the_password(
    world: World, tmp_path: Path
) -> None:
    await world.emit("one")
    for code, message, arguments, env in (
        (2, "--database-url", (), {"HOOKFAST_OUTBOX_DATABASE_URL": ""}),
        (2, "--batch", ("--batch", "1001"), {}),
        (2, "is not a duration", ("--keep", "tomorrow"), {}),
        (1, "not the name of an outbox table", ("--table", "a b"), {}),
        (1, "does not exist", ("--table", "elsewhere"), {}),
        (1, "does not accept the API key", (), {"HOOKFAST_API_KEY": "hf_" + "x" * 40}),
        (1, "not the URL of a Hookfast", ("--url", "ftp://a"), {}),
        (1, "is not valid", ("--database-url", "postgresql://a:s3cr3t@[/b"), {}),
        (1, "must be PostgreSQL", ("--database-url", "mysql://a:s3cr3t@b/c"), {}),
    ):
        ended, out, err = await run(world, tmp_path, *arguments, **env)
        assert (ended, out) == (code, ""), err
        assert message in " ".join(err.replace("│", " ").split())
        assert "s3cr3t" not in err
        assert "Traceback" not in err
    assert len(await world.rows()) == 1


async def test_print_sql_prints_the_migration(world: World, tmp_path: Path) -> None:
    code, out, _ = await run(world, tmp_path, "--print-sql", "--table", "app.outbox")
    assert (code, out) == (0, create_sql("app.outbox"))


async def test_relay_serves_its_metrics_and_ends_at_sigterm(world: World, tmp_path: Path) -> None:
    await world.emit(1, 2)
    await world.emit("unknown", type="no.such.type")
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hookfast.cli", "outbox-relay", "--metrics-port", "0"),
            env=environment_of(world) | {"HOOKFAST_METRICS_TOKEN": "token"},
            stderr=output,
        )

    async def port() -> int | None:
        return next((line["port"] for line in lines_of(log.read_text()) if "port" in line), None)

    async def metrics() -> str | None:
        found = await client.get(url, headers={"Authorization": "Bearer token"})
        return found.text if "hookfast_outbox_relay_rejected 1.0" in found.text else None

    try:
        url = f"http://127.0.0.1:{await eventually(port)}/metrics"
        async with httpx2.AsyncClient(trust_env=False, verify=NO_TLS) as client:
            assert (await client.get(url)).status_code == 401
            text = await eventually(metrics)
    finally:
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == 0
    check_file(log)
    found = dict(re.findall(r"^(hookfast_outbox_relay_\S+?)(?:\{.*?\})? (\S+)$", text, re.M))
    assert 'hookfast_outbox_relay_rows_total{result="sent"} 2.0' in text
    assert 'hookfast_outbox_relay_rows_total{result="rejected"} 1.0' in text
    assert found["hookfast_outbox_relay_lag_seconds"] == "0.0"
    assert found["hookfast_outbox_relay_waiting"] == "0.0"


async def test_relay_runs_where_only_the_client_is_installed(world: World) -> None:
    await world.emit(1, 2)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hookfast_client.outbox", "--once"),
        env=environment_of(world),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 0, err
    assert b"A batch was sent: 2 sent" in err
    assert await world.events() == [1, 2]
