"""`hookfast logs`: the newest attempts and every new one, and lists filtered by the last answer."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from tests.e2e.service_process import environment
from tests.integration.cli.conftest import TYPE, Run
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, answer, ended
from tests.support.api_client import OPERATOR_KEY, Json
from tests.support.api_server import ApiServer, served_on
from tests.support.forked_command import ForkedCommand, start_forked
from tests.support.seed import seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

FIRST = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
UNANSWERED = Outcome(result=Result.TIMEOUT, duration_ms=15_000, error="It took too long.")


def made(
    delivery_id: str, outcome: Outcome, *, retries: bool = False, ago: float = 0
) -> AttemptRecord:
    """Return the record of a first attempt that began so many seconds ago."""
    plan = MINUTES if retries else NO_RETRIES
    began = utc_now() - timedelta(seconds=ago)
    fact = ended(FIRST, 200, began, plan=plan)
    values = {name: getattr(fact, name) for name in fact.__slots__} | {"outcome": outcome}
    return AttemptRecord(delivery_id=delivery_id, ended=type(fact)(**values))


@pytest.fixture
async def deliveries(served: ApiServer, client: httpx2.AsyncClient, endpoint: Json) -> list[str]:
    """Four deliveries, oldest first: dead after a 503, delivered, retrying after a timeout, and
    one without an attempt."""
    for number in range(4):
        event = {"type": TYPE, "data": number, "tenant_id": endpoint["tenant_id"]}
        assert (await client.post("/events", json=event)).status_code == 202
    ids = [row["id"] for row in (await client.get("/deliveries")).json()["data"]][::-1]
    recorder = Recorder(served.context.database)
    for record in (
        made(ids[0], answer(503), ago=3),
        made(ids[1], answer(200), ago=2),
        made(ids[2], UNANSWERED, retries=True, ago=1),
    ):
        await recorder.record(record)
    await recorder.close()
    return ids


async def test_logs_print_a_line_per_attempt_that_matches(
    hookfast: Run, deliveries: list[str], endpoint: Json
) -> None:
    failed, delivered, retrying, _ = deliveries
    logs = await hookfast("logs")
    assert (logs.code, logs.err) == (0, "")
    lines = [line.split(" ", 1)[1] for line in logs.out.splitlines()]  # without the time
    middle = f"{TYPE} {endpoint['id']} #1"
    assert lines[0] == f"{failed} {middle} 503 5 ms → dead (retries_exhausted)"
    assert lines[1] == f"{delivered} {middle} 200 5 ms → delivered"
    assert lines[2].startswith(f"{retrying} {middle} timeout 15 s → in ")
    assert len(lines) == 3

    async def found(*options: str) -> list[str]:
        logs = await hookfast("logs", "--json", *options)
        assert logs.code == 0, logs.err
        return [json.loads(line)["delivery_id"] for line in logs.out.splitlines()]

    assert await found("--limit", "2") == [delivered, retrying]
    assert await found("--answer", "5xx") == [failed]
    assert await found("--status", "retrying", "--endpoint", endpoint["id"]) == [retrying]
    nothing = await hookfast("logs", "--answer", "refused")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No attempt matches.\n")
    wrong = await hookfast("logs", "--answer", "often")
    assert wrong.code == 1
    assert "use a status code such as 503, a class (1xx, 2xx," in wrong.error_text


async def test_lists_and_actions_take_the_last_answer(hookfast: Run, deliveries: list[str]) -> None:
    failed, delivered, retrying, untried = deliveries
    listed = (await hookfast("deliveries", "list")).out.splitlines()
    assert "last answer" in listed[0]
    shown = dict(zip([untried, retrying, delivered, failed], listed[1:], strict=True))
    assert "503 5 ms" in shown[failed]
    assert "200 5 ms" in shown[delivered]
    assert "timeout 15 s" in shown[retrying]
    assert shown[untried].startswith(untried)

    async def found(*command: str) -> list[str]:
        listed = await hookfast(*command, "--json")
        return [row["id"] for row in listed.json["data"]]

    assert await found("deliveries", "list", "--answer", "timeout") == [retrying]
    assert await found("dead-letters", "list", "--answer", "503") == [failed]
    assert await found("dead-letters", "list", "--answer", "timeout") == []
    for command in (("deliveries", "resend"), ("dead-letters", "redrive")):
        counted = await hookfast(*command, "--answer", "5xx", "--dry-run", "--json")
        assert counted.json["matching"] == 1, command


async def test_logs_follow_a_service_over_a_restart_and_lose_no_slow_attempt(
    settings: Settings, tmp_path: Path
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    url = f"http://127.0.0.1:{address[1]}"
    process: ForkedCommand | None = None
    lines: list[Json] = []

    async def line() -> Json:
        assert process is not None
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            text = await process.stdout.readline()
        assert text, "it ended"
        return dict(json.loads(text))

    async def note(expected: str) -> None:
        assert process is not None
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while expected not in (text := (await process.stderr.readline()).decode()):
                assert text, "it ended"

    try:
        async with served_on(settings, listener) as context:
            endpoint = await seed_endpoint(context.database, "https://example.com/hook")
            slow, *ids = [await seed_delivery(context.database, endpoint) for _ in range(5)]
            slow_record = made(slow, UNANSWERED, ago=15)
            recorder = Recorder(context.database)
            await recorder.record(made(ids[0], answer(200)))
            env = environment() | {"HOOKFAST_URL": url, "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY}
            process = await start_forked(("logs", "--follow", "--json"), folder=tmp_path, env=env)
            lines.append(await line())
            await note("Following")
            await recorder.record(made(ids[1], answer(503)))
            lines.append(await line())
            await recorder.close()
        listener.close()
        async with Database(settings.resolved_database_url) as database:
            recorder = Recorder(database)  # the workers go on
            await recorder.record(made(ids[2], answer(200)))
            await recorder.record(slow_record)  # it began before all others
            await recorder.record(made(ids[3], answer(200)))
            await recorder.close()
        await note("No connection")
        listener = socket.create_server(address)
        async with served_on(settings, listener):
            await note("Connected again")
            lines += [await line() for _ in range(3)]
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(PATIENCE):
                rest, _ = await process.communicate()
        assert (process.returncode, rest) == (0, b"")
    finally:
        listener.close()
        if process is not None and process.returncode is None:
            process.kill()
            await process.communicate()
    assert [one["delivery_id"] for one in lines] == [*ids[:3], slow, ids[3]]
    assert lines[3]["result"] == "timeout"
