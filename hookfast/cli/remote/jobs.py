"""`hookfast jobs`: how far actions on many deliveries have come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hookfast.cli.remote.client import Answer, Refused, Unreachable, path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit, Tenant
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import INTERRUPTED, counted, plain, say, show_facts, show_table
from hookfast.cli.remote.times import distance, shown, span
from hookfast.clock import utc_now

app = typer.Typer()

JobId = Annotated[str, typer.Argument(metavar="ID")]


@command(app, "list")
def list_jobs(
    remote: Remote,
    status: Annotated[
        str | None, typer.Option(help="pending, running, done, cancelled or failed.")
    ] = None,
    tenant: Tenant = None,
    limit: Limit = 50,
) -> None:
    """List jobs, newest first."""
    rows = remote.rows("/jobs", {"status": status, "tenant_id": tenant}, limit=limit)
    if rows is not None:
        show_table(
            ("id", "action", "status", "progress", "created"),
            [
                (row["id"], row["action"], row["status"], counts(row), distance(row["created_at"]))
                for row in rows
            ],
            nothing="There is no job.",
        )


@command(app, "show")
def show(remote: Remote, job_id: JobId) -> None:
    """Show a job."""
    answer = remote.api.get(path_of("jobs", job_id))
    if remote.as_json:
        remote.print_json(answer)
        return
    job = answer.value
    show_facts(
        {
            "job": job["id"],
            "kind": job["kind"],
            "action": job["action"],
            "status": job["status"],
            "filter": json.dumps(job["filter"], ensure_ascii=False) if job["filter"] else "all",
            "progress": f"{counts(job)} ({job['percent']:g} %)",
            "pace": pace(job, now=utc_now()) or None,
            "error": job["error"],
            "created": shown(job["created_at"]),
            "started": shown(job["started_at"]),
            "finished": shown(job["finished_at"]),
            "workflow": job["workflow"]["url"] or job["workflow"]["id"],
        }
    )


@command(app, "watch")
def watch(remote: Remote, job_id: JobId) -> None:
    """Follow a job to its end. Exit code: 0 done, 1 failed, 3 cancelled. Ctrl-C stops watching, not
    the job."""
    follow(remote, remote.api.get(path_of("jobs", job_id)).value)


@command(app, "cancel")
def cancel(remote: Remote, job_id: JobId) -> None:
    """Stop a job. What it has done stays done."""
    answer = remote.api.post(path_of("jobs", job_id, "cancel"))
    if remote.as_json:
        remote.print_json(answer)
    else:
        typer.echo(f"{answer.value['id']} is being cancelled: {counts(answer.value)}.")


EXIT_CODES: Mapping[str, int] = {"done": 0, "failed": 1, "cancelled": 3}
"""Exit code of a watching command by the job's last status."""
_EVERY_SECONDS = 0.5
_PATIENCE_SECONDS = 300.0
"""How long the API may be away while a job is followed; the job itself does not need it."""


def follow(remote: Remote, job: Mapping[str, Any]) -> None:
    """Show the job's progress until it ends, print it, and exit with its code unless it is 0.

    Ctrl-C ends only the watching; the exit code is then 130.
    """
    job_id = str(job["id"])
    last: Answer | None = None
    try:
        with _bar() as bar:
            task = bar.add_task(job_title(job), total=None, counts="", pace="")
            for answer in _answers(remote, job_id):
                last = answer
                seen = answer.value
                bar.update(
                    task,
                    total=seen["total"] or None,
                    completed=dealt_with(seen),
                    counts=counts(seen),
                    pace=pace(seen, now=utc_now()),
                )
    except KeyboardInterrupt:
        say(f"Stopped watching; the job goes on. Cancel it with `hookfast jobs cancel {job_id}`.")
        raise typer.Exit(INTERRUPTED) from None
    if last is None:  # pragma: no cover - there is always one answer or an error
        return
    if remote.as_json:
        remote.print_json(last)
    else:
        typer.echo(outcome(last.value))
    if code := EXIT_CODES.get(last.value["status"], 1):
        raise typer.Exit(code)


def job_title(job: Mapping[str, Any]) -> str:
    """What the job is, in two words."""
    return plain(f"{job['action']} {job['id']}")


def dealt_with(job: Mapping[str, Any]) -> int:
    """How many deliveries it has looked at."""
    return int(job["done"] + job["skipped"] + job["failed"])


def counts(job: Mapping[str, Any]) -> str:
    """`1,200/5,000, 3 skipped, 1 failed`."""
    text = f"{dealt_with(job):,}/{job['total']:,}"
    for kind in ("skipped", "failed"):
        if job[kind]:
            text += f", {job[kind]:,} {kind}"
    return text


def pace(job: Mapping[str, Any], *, now: datetime) -> str:
    """How fast it went so far and how long the rest will take: `48.0/s, 2 min left`."""
    if job["started_at"] is None or not dealt_with(job):
        return ""
    end = now if job["finished_at"] is None else datetime.fromisoformat(job["finished_at"])
    seconds = (end - datetime.fromisoformat(job["started_at"])).total_seconds()
    if seconds <= 0:
        return ""
    rate = dealt_with(job) / seconds
    text = f"{rate:,.1f}/s"
    if job["finished_at"] is None:
        text += f", {span(job['eta_seconds'])} left"
    return text


def outcome(job: Mapping[str, Any]) -> str:
    """How it ended, in a sentence."""
    sentence = f"{job['id']} {job['status']}: {counts(job)}"
    speed = pace(job, now=utc_now())
    sentence += f" ({speed})." if speed else "."
    if job["error"]:
        sentence += f" {plain(job['error'])}"
    return sentence


def started(job: Mapping[str, Any]) -> str:
    """That it was started, in a sentence that says how to see more of it."""
    return (
        f"{job['id']}: {job['action']} of {counted(job['total'], 'delivery')}. "
        f"Watch it with `hookfast jobs watch {job['id']}`."
    )


def _answers(remote: Remote, job_id: str) -> Iterator[Answer]:
    """The job over and over, until it has ended. While the API is away, waits for it."""
    last_seen: float | None = None
    while True:
        try:
            answer = remote.api.get(path_of("jobs", job_id))
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and not error.for_now:
                raise
            # an API that was never there is more likely a wrong URL than a restart
            if last_seen is None or time.monotonic() - last_seen > _PATIENCE_SECONDS:
                raise
        else:
            last_seen = time.monotonic()
            yield answer
            if answer.value["status"] in EXIT_CODES:
                return
        time.sleep(_EVERY_SECONDS)


def _bar() -> Progress:
    console = Console(file=sys.stderr)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[counts]}", markup=False),
        TextColumn("{task.fields[pace]}", markup=False),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
