"""Every command that lists or shows something, on terminals of 80 and 120 columns and in a pipe."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import httpx2
import pytest
from rich.cells import cell_len
from sqlalchemy import insert, update
from typer import Context
from typer.main import get_command

from hookfast.cli import app
from hookfast.ids import new_id
from hookfast.storage.tables import Attempt, Delivery, RetentionRun
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_server import ApiServer
from tests.support.figures import count_rows
from tests.support.forked_command import run_forked
from tests.support.rows import attempt_row
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.seed_jobs import seed_job

pytestmark = pytest.mark.anyio

_LONG_TYPE = "classroom_assessment.assignment_submission.grade_published"
_LONG_NAME = (
    "Österreichische Bundesbahnen 株式会社日本語の会社名 👩‍🚀 Rechnungswesen und Controlling"
)
_LONG_URL = (
    f"http://127.0.0.1:4/hooks/production/eu-central-1/{'billing-' * 12}v2?tenant=0123456789"
)
_ID = re.compile(r"\b(?:dlv|evt|ep|sub|tnt|src|inb|job|key|ret)_[0-9a-f]{32}\b")
_PART_OF_ID = re.compile(r"\b(?:dlv|evt|ep|sub|tnt|src|inb|job|key|ret)_[0-9a-f]+")

_WIDTHS = (80, 120)
_DELIVERY_HEADINGS = (
    "id status event_type endpoint attempts last_answer next_attempt created reason"
)
_PIPED: Mapping[str, str] = {
    "audit list": "at by from action resource changes",
    "dead-letters list": _DELIVERY_HEADINGS,
    "deliveries list": _DELIVERY_HEADINGS,
    "endpoints list": "id health tenant url reason name",
    "event-types list": "name schema updated description",
    "events list": "id type tenant deliveries created",
    "inbox list": "id status event_type key duplicates received",
    "jobs list": "id action status progress created",
    "keys list": "id hint scope name created last_used expires",
    "sources list": "id provider active tenant name",
    "subscriptions list": "id active endpoint events filter payload tenant created",
    "tenants list": "id name created",
    "tests list": "id answer event_type endpoint sent error",
}
"""The headings of every list in a pipe, whatever the width."""
_SHOWN = (
    "dead-letters stats",
    "deliveries show",
    "endpoints health",
    "endpoints show",
    "endpoints stats",
    "event-types show",
    "events show",
    "inbox show",
    "jobs show",
    "retention show",
    "sources show",
    "sources stats",
    "subscriptions show",
    "tenants usage",
    "tests show",
)


@pytest.fixture
async def shown(served: ApiServer, client: httpx2.AsyncClient) -> dict[str, list[str]]:
    """One of everything, with long names; returns the arguments of each command that shows one."""

    async def post(path: str, form: object) -> str:
        answer = await client.post(path, json=form)
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    context, now = served.context, served.context.clock()
    schema = {"type": "object", "properties": {"grade": {"description": "wort " * 40}}}
    for name in (TYPE, _LONG_TYPE):
        form = {"description": _LONG_NAME, "schema": schema}
        assert (await client.put(f"/event-types/{name}", json=form)).is_success
    tenant = await post("/tenants", {"name": _LONG_NAME})
    members = {"tenant_id": tenant, "verification": "none", "events": [_LONG_TYPE, "order.**"]}
    named = await post("/endpoints", members | {"url": _LONG_URL, "description": _LONG_NAME})
    await post("/endpoints", members | {"url": _LONG_URL})
    await post(f"/tenants/{tenant}/api-keys", {"name": _LONG_NAME, "scope": "tenant"})
    await client.post(f"/endpoints/{named}/pause")
    event = await post("/events", {"type": _LONG_TYPE, "data": {"text": _LONG_NAME * 4}})
    source = await seed_source(context.database, tenant, name=_LONG_NAME)
    request = {"event_type": _LONG_TYPE, "key": "id:" + "9" * 60}
    entry = await seed_entry(context.database, source, tenant, **request)
    deliveries = (await client.get("/deliveries")).json()["data"]
    subscription = deliveries[0]["subscription_id"]
    conditions = {"customer.country": {"$in": ["DE", "FR", _LONG_NAME]}, "amount": {"$gte": 100}}
    patched = await client.patch(f"/subscriptions/{subscription}", json={"filter": conditions})
    assert patched.is_success
    async with context.database.write() as connection:
        await connection.execute(
            update(Delivery).values(
                status="dead", reason="retries_exhausted", attempts=2, finished_at=now
            )
        )
        attempts = [
            attempt_row(
                *(now + timedelta(seconds=number), deliveries[0]["id"]),
                endpoint_id=deliveries[0]["endpoint_id"],
                number=number,
                trigger="retry" if number > 1 else "first",
                duration_ms=1234.5,
                status_code=503,
                error="The server answered 503 Service Unavailable and closed the connection.",
                response_excerpt=f"<p>\x1b[2J{_LONG_NAME} {'x' * 300}</p>\n" * 9 + str(number),
                url=_LONG_URL,
                request_headers="Host: example.com",
                response_headers="Content-Type: text/html; charset=utf-8",
            )
            for number in (1, 2)
        ]
        await connection.execute(insert(Attempt.__table__), attempts)
        run = {"id": new_id("ret", now), "status": "done", "dry_run": False}
        await connection.execute(
            insert(RetentionRun.__table__), run | {"workflow_id": "retention", "started_at": now}
        )
    await count_rows(context.database)
    test = await client.post(f"/endpoints/{named}/test", json={"type": _LONG_TYPE})
    assert test.json()["kept"], test.text
    job = await seed_job(context.database)
    return {
        "deliveries show": [deliveries[0]["id"]],
        "endpoints health": [named],
        "endpoints show": [named],
        "endpoints stats": [named],
        "event-types show": [_LONG_TYPE],
        "events show": [event],
        "inbox show": [entry],
        "jobs show": [job],
        "retention show": [],
        "sources show": [source],
        "sources stats": [source],
        "subscriptions show": [subscription],
        "tenants usage": [tenant],
        "tests show": [test.json()["message_id"]],
        "dead-letters stats": [],
        **{command: [] for command in _PIPED},
        "keys list": ["--tenant", tenant],
    }


class OnTerminal(Protocol):
    """Runs `hookfast …` on a terminal with so many columns; returns the lines printed there."""

    async def __call__(self, columns: int, *arguments: str) -> list[str]: ...


@pytest.fixture
def on_terminal(service_environment: dict[str, str], tmp_path: Path) -> OnTerminal:
    async def run(columns: int, *arguments: str) -> list[str]:
        mine, theirs = pty.openpty()
        env = service_environment | {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
        reading = asyncio.create_task(asyncio.to_thread(_read_all, mine))
        try:
            code, _, err = await run_forked(
                arguments, folder=tmp_path, env=env, stdin=b"", terminal=os.ttyname(theirs)
            )
        finally:
            os.close(theirs)
        printed = await reading
        os.close(mine)
        assert code == 0, err
        return re.sub(r"\x1b\[[\d;]*m", "", printed).replace("\r", "").splitlines()

    return run


def test_every_command_that_shows_something_is_tried_here() -> None:
    groups = get_command(app).commands  # type: ignore[attr-defined]
    found = {
        f"{noun} {name}"
        for noun, group in groups.items()
        if hasattr(group, "list_commands")
        for name in group.list_commands(Context(group))
        if name in ("list", "show", "stats", "health", "usage")
    }
    known = {*_PIPED, *_SHOWN}
    assert found == known


async def test_lines_fit_the_terminal_and_ids_are_whole(
    hookfast: Run, shown: dict[str, list[str]], on_terminal: OnTerminal
) -> None:
    assert {*shown} == {*_PIPED, *_SHOWN}
    for command, arguments in shown.items():
        given = (*command.split(), *arguments)
        piped, *shown_lines = await asyncio.gather(
            hookfast(*given, env={"COLUMNS": "40"}),
            *(on_terminal(columns, *given) for columns in _WIDTHS[: 1 + (command in _PIPED)]),
        )
        assert piped.code == 0, piped.err
        for columns, lines in zip(_WIDTHS, shown_lines, strict=False):
            assert lines, command
            for line in lines:
                assert _fits(line, columns), f"{command} at {columns}: {line}"
                assert _PART_OF_ID.findall(line) == _ID.findall(line), f"{command}: {line}"
            if command in _PIPED and command != "audit list":  # its rows show no id of their own
                assert _ids_of_rows(lines) == _ids_of_rows(piped.out.splitlines()), command
            for id_ in arguments:
                assert (id_ in "\n".join(lines)) == (id_ in piped.out), command
        if command in _PIPED:
            heading = re.sub(r"(?<=\w) (?=\w)", "_", piped.out.splitlines()[0])
            assert " ".join(heading.split()) == _PIPED[command]


def _ids_of_rows(lines: list[str]) -> list[str]:
    """Return the rows' own ids: the first in each line."""
    return [found[0] for line in lines if (found := _ID.search(line))]


def _fits(line: str, columns: int) -> bool:
    """Whether a line is at most `columns` wide, or has one word that cannot be broken: a URL."""
    return cell_len(line) <= columns or "://" in line.split()[-1]


def _read_all(terminal: int) -> str:
    read = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # EIO: no process has the other side open any more
            part = b""
        if not part:
            return read.decode()
        read += part
