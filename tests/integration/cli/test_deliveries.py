"""`hookfast deliveries`, `dead-letters` and `jobs`."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import insert, update

from hookfast.deliveries.job import JobStatus
from hookfast.storage.deliveries import jobs
from hookfast.storage.tables import Attempt, Delivery
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json
from tests.support.api_server import ApiServer
from tests.support.figures import count_rows
from tests.support.rows import attempt_row
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

UNKNOWN = "dlv_" + "0" * 32


@pytest.fixture
async def deliveries(client: httpx2.AsyncClient, endpoint: Json) -> list[str]:
    """Three deliveries of the endpoint, newest first."""
    for number in range(3):
        event = {"type": TYPE, "data": number, "tenant_id": endpoint["tenant_id"]}
        assert (await client.post("/events", json=event)).status_code == 202
    return [row["id"] for row in (await client.get("/deliveries")).json()["data"]]


@pytest.fixture
async def dead(served: ApiServer, endpoint: Json, deliveries: list[str]) -> list[str]:
    """The same deliveries as dead letters; the newest has a recorded attempt."""
    now = served.context.clock()
    async with served.context.database.write() as connection:
        await connection.execute(
            update(Delivery).values(
                status="dead", reason="retries_exhausted", attempts=1, finished_at=now
            )
        )
        await connection.execute(
            insert(Attempt.__table__),
            attempt_row(
                *(now, deliveries[0], endpoint["id"]),
                status_code=503,
                error="The receiver answered 503 \x1b[31m[bold]Service Unavailable.",
                response_excerpt="down",
                url="https://example.com/hook",
                request_headers="Host: example.com\nX-Env: ***",
                response_headers="X-Odd: a\x1b[31mb\n…: 2 more",
            ),
        )
    await count_rows(served.context.database)
    return deliveries


async def test_deliveries_are_listed_with_whole_ids(
    hookfast: Run, deliveries: list[str], endpoint: Json
) -> None:
    listed = await hookfast("deliveries", "list", "--endpoint", endpoint["id"], "--since", "1h")
    assert listed.code == 0, listed.err
    assert [line.split()[0] for line in listed.out.splitlines()] == ["id", *deliveries]
    assert endpoint["id"] in listed.out
    assert "\x1b" not in listed.out
    assert listed.err == ""
    fewer = await hookfast("deliveries", "list", "--limit", "2")
    assert [line.split()[0] for line in fewer.out.splitlines()] == ["id", *deliveries[:2]]
    assert fewer.err == "There are more; --limit shows them.\n"


async def test_a_list_as_json_is_its_pages_merged_up_to_the_limit(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    events = [{"type": TYPE, "data": n, "tenant_id": endpoint["tenant_id"]} for n in range(202)]
    assert (await client.post("/events/batch", json={"events": events})).status_code == 202
    ended = await hookfast("deliveries", "list", "--json", "--limit", "201")
    assert ended.err == ""
    rows = [row["id"] for row in ended.json["data"]]
    assert len(set(rows)) == 201
    query = {"limit": 1, "cursor": ended.json["next_cursor"]}
    [last] = (await client.get("/deliveries", params=query)).json()["data"]
    assert last["id"] < min(rows)


async def test_a_page_as_json_is_exactly_what_the_api_answers(
    hookfast: Run, client: httpx2.AsyncClient, deliveries: list[str]
) -> None:
    ended = await hookfast("deliveries", "list", "--json", "--limit", "2")
    answer = await client.get("/deliveries", params={"limit": 2})
    assert ended.out == answer.text + "\n"


async def test_empty_list_prints_a_note_on_standard_error(hookfast: Run, endpoint: Json) -> None:
    ended = await hookfast("deliveries", "list", "--status", "gone")
    assert (ended.code, ended.out, ended.err) == (0, "", "No delivery matches.\n")


async def test_a_list_takes_one_status(hookfast: Run) -> None:
    ended = await hookfast("deliveries", "list", "--status", "dead", "--status", "gone")
    assert ended.code == 2


async def test_a_delivery_is_shown_with_its_attempts(hookfast: Run, dead: list[str]) -> None:
    shown = await hookfast("deliveries", "show", dead[0])
    assert shown.code == 0, shown.err
    assert "retries_exhausted" in shown.out
    assert f"delivery/{dead[0]}" in shown.out
    assert "The receiver answered 503 �[31m[bold]Service Unavailable." in shown.out


async def test_headers_of_each_attempt_are_shown_on_request(
    hookfast: Run, dead: list[str], served: ApiServer
) -> None:
    plain = await hookfast("deliveries", "show", dead[0])
    assert "X-Env" not in plain.out
    shown = await hookfast("deliveries", "show", dead[0], "--headers")
    assert shown.code == 0, shown.err
    *_, after = shown.out.partition("\nAttempt 1\n")
    assert after.splitlines() == [
        "> POST https://example.com/hook",
        "> Host: example.com",
        "> X-Env: ***",
        "< X-Odd: a�[31mb",
        "< …: 2 more",
    ]
    async with served.context.database.write() as connection:
        await connection.execute(update(Attempt).values(url=None))
    shown = await hookfast("deliveries", "show", dead[0], "--headers")
    assert shown.err == "Attempt 1: its URL and headers were not kept.\n"


async def test_unknown_delivery_is_reported_in_a_sentence(hookfast: Run) -> None:
    shown = await hookfast("deliveries", "show", UNKNOWN)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("hookfast: Nothing has this id")


async def test_action_by_ids_continues_after_an_unknown_delivery(
    hookfast: Run, deliveries: list[str], client: httpx2.AsyncClient
) -> None:
    ended = await hookfast("deliveries", "pause", UNKNOWN, *deliveries[:1])
    assert ended.code == 1
    assert f"{UNKNOWN}: Nothing has this id" in ended.err
    assert deliveries[0] not in ended.err
    # Temporal is unreachable here, and the other delivery is paused anyway
    shown = (await client.get(f"/deliveries/{deliveries[0]}")).json()
    assert shown["status"] == "paused"


@pytest.mark.parametrize("action", ["pause", "resume", "resend", "cancel"])
async def test_action_needs_either_ids_or_filters(hookfast: Run, action: str) -> None:
    assert (await hookfast("deliveries", action)).code == 2
    assert (await hookfast("deliveries", action, UNKNOWN, "--status", "dead")).code == 2
    assert (await hookfast("deliveries", action, UNKNOWN, "--all")).code == 2


async def test_an_action_on_many_counts_and_asks_first(
    hookfast: Run, client: httpx2.AsyncClient, dead: list[str]
) -> None:
    arguments = ("deliveries", "resend", "--status", "dead", "--status", "gone")
    for answer in ("n\n", "\n", ""):
        declined = await hookfast(*arguments, stdin=answer)
        assert (declined.code, declined.out) == (1, "")
        assert "3 deliveries match: 3 dead." in declined.err
        assert "Resend 3 deliveries? [y/N]" in declined.err
        assert "Nothing was done." in declined.err
    assert (await client.get("/jobs")).json()["data"] == []

    agreed = await hookfast(*arguments, "--no-wait", "--rate", "7", stdin="y\n")
    assert agreed.code == 0, agreed.err
    [job] = (await client.get("/jobs")).json()["data"]
    assert agreed.out.startswith(f"{job['id']}: resend of 3 deliveries.")
    assert job["rate_per_second"] == 7
    assert job["filter"]["statuses"] == ["dead", "gone"]


async def test_a_dry_run_only_counts(
    hookfast: Run, client: httpx2.AsyncClient, dead: list[str]
) -> None:
    counted = await hookfast("dead-letters", "redrive", "--all", "--dry-run")
    assert (counted.code, counted.out) == (0, "3 deliveries match: 3 dead.\n")
    as_json = await hookfast("deliveries", "cancel", "--all", "--dry-run", "--json")
    assert as_json.json == {"dry_run": True, "matching": 0, "by_status": {}}
    assert (await client.get("/jobs")).json()["data"] == []


async def test_action_without_matches_asks_nothing(hookfast: Run, deliveries: list[str]) -> None:
    ended = await hookfast("dead-letters", "redrive", "--all")
    assert (ended.code, ended.out) == (0, "No delivery matches.\n")


async def test_an_action_on_many_as_json_is_the_job(hookfast: Run, dead: list[str]) -> None:
    arguments = ("dead-letters", "redrive", "--reason", "retries_exhausted")
    ended = await hookfast(*arguments, "--yes", "--no-wait", "--json")
    assert ended.json["total"] == 3
    assert ended.err == ""


async def test_dead_letters_are_listed_and_counted(
    hookfast: Run, dead: list[str], endpoint: Json
) -> None:
    listed = await hookfast("dead-letters", "list", "--event-type", TYPE)
    assert [line.split()[0] for line in listed.out.splitlines()] == ["id", *dead]
    stats = await hookfast("dead-letters", "stats")
    assert stats.code == 0, stats.err
    for line in (f"{endpoint['id']}  3", f"{TYPE}  3", "retries_exhausted  3"):
        assert line in " ".join(stats.out.split(" ")).replace("   ", "  "), stats.out
    assert re.search(r"^under 1 hour ago +3\n1 to 24 hours ago +0\n", stats.out, re.M), stats.out
    as_json = await hookfast("dead-letters", "stats", "--endpoint", endpoint["id"], "--json")
    assert as_json.json["total"] == 3


async def _job(hookfast: Run) -> Json:
    ended = await hookfast("dead-letters", "redrive", "--all", "--yes", "--no-wait", "--json")
    return dict(ended.json)


async def _progress(served: ApiServer, job: Json, status: JobStatus | None = None) -> None:
    """Write what a worker would: all deliveries but one done, and with `status`, the job's end."""
    now = served.context.clock()
    async with served.context.database.write() as connection:
        begun = await jobs.begin(connection, job["id"], now=now - timedelta(seconds=10))
        assert begun is not None
        if begun.cursor is None:
            await jobs.record_progress(
                connection, begun, cursor="dlv_", in_hand=[], done=2, skipped=1, now=now
            )
        if status is not None:
            await jobs.finish(connection, job["id"], status=status, now=now, error=None)


@pytest.mark.parametrize(
    ("status", "code"), [(JobStatus.DONE, 0), (JobStatus.FAILED, 1), (JobStatus.CANCELLED, 3)]
)
async def test_watching_a_job_ends_with_its_status_as_the_exit_code(
    hookfast: Run, served: ApiServer, dead: list[str], status: JobStatus, code: int
) -> None:
    job = await _job(hookfast)
    watching = asyncio.create_task(hookfast("jobs", "watch", job["id"]))
    await _progress(served, job)
    await _progress(served, job, status)
    ended = await watching
    assert ended.code == code
    assert ended.out.startswith(f"{job['id']} {status.value}: 3/3, 1 skipped")
    assert (await hookfast("jobs", "watch", job["id"], "--json")).json["status"] == status.value


async def test_jobs_are_listed_shown_and_cancelled(hookfast: Run, dead: list[str]) -> None:
    job = await _job(hookfast)
    listed = await hookfast("jobs", "list", "--status", "pending")
    assert f"{job['id']}  resend  pending  0/3" in listed.out
    shown = await hookfast("jobs", "show", job["id"])
    assert f"job/{job['id']}" in shown.out
    cancelled = await hookfast("jobs", "cancel", job["id"])
    assert cancelled.out == f"{job['id']} is being cancelled: 0/3.\n"


async def test_unknown_job_is_reported_in_a_sentence(hookfast: Run) -> None:
    ended = await hookfast("jobs", "watch", "job_" + "0" * 32)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("hookfast: Nothing has this id")


class Terminal:
    """A command on its own terminal, 60 columns wide."""

    def __init__(self, environment: dict[str, str], cwd: Path, arguments: Sequence[str]) -> None:
        self._mine, theirs = pty.openpty()
        self._environment = environment | {"COLUMNS": "60", "TERM": "xterm"}
        self._arguments, self._cwd, self._theirs = arguments, cwd, theirs
        self.said = ""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hookfast.cli", *self._arguments),
            cwd=self._cwd,
            env=self._environment,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
        )
        os.close(self._theirs)
        os.set_blocking(self._mine, False)

    async def until(self, text: str) -> None:
        """Wait until it has printed this text."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.said:
                self._read()
                await asyncio.sleep(0.02)

    def interrupt(self) -> None:
        """Send Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self._process.wait()
        self._read()
        os.close(self._mine)
        return code

    def _read(self) -> None:
        try:
            while data := os.read(self._mine, 65_536):
                self.said += data.decode(errors="replace")
        except OSError:  # nothing to read now, or the other side is closed
            pass


async def test_on_a_terminal_a_job_has_a_bar_and_ctrl_c_stops_only_the_watching(
    hookfast: Run,
    service_environment: dict[str, str],
    served: ApiServer,
    client: httpx2.AsyncClient,
    dead: list[str],
    tmp_path: Path,
) -> None:
    job = await _job(hookfast)
    terminal = Terminal(service_environment, tmp_path, ["jobs", "watch", job["id"]])
    await terminal.start()
    await terminal.until("0/3")
    await _progress(served, job)
    await terminal.until("3/3")
    terminal.interrupt()
    await terminal.until("the job goes on")
    assert await terminal.ended() == 130
    assert (await client.get(f"/jobs/{job['id']}")).json()["status"] == "running"


async def test_a_narrow_terminal_cuts_no_id(
    service_environment: dict[str, str], tmp_path: Path, dead: list[str]
) -> None:
    terminal = Terminal(service_environment, tmp_path, ["deliveries", "list"])
    await terminal.start()
    await terminal.until(dead[-1])
    assert await terminal.ended() == 0
    assert all(delivery_id in terminal.said for delivery_id in dead)
    assert "\x1b[31mdead" in terminal.said


async def test_closed_pipe_is_not_an_error(
    service_environment: dict[str, str], tmp_path: Path, dead: list[str]
) -> None:
    script = f"{json.dumps(sys.executable)} -m hookfast.cli deliveries list | head -n 1"
    process = await asyncio.create_subprocess_shell(
        script,
        cwd=tmp_path,
        env=service_environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out.startswith(b"id ")
    assert err == b""
