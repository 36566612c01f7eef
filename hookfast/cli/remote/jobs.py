"""`hookfast jobs`: list, show, watch and cancel jobs, which act on many deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import JobArgument, Limit, Tenant, filter_option
from hookfast.cli.remote.progress import progress_bar, text_column
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import (
    INTERRUPTED,
    Column,
    print_facts,
    print_note,
    printable,
)
from hookfast.cli.remote.times import format_distance, format_seconds, format_time
from hookfast.clock import utc_now
from hookfast.plural import pluralize
from hookfast.strict_json.text import to_text

if TYPE_CHECKING:
    from hookfast_client.types import Job

app = typer.Typer()

EXIT_CODES: Mapping[str, int] = {"done": 0, "failed": 1, "cancelled": 3}
"""Exit code of a command that watches a job, by the job's final status."""


@command(app, "list")
def list_jobs(
    remote: Remote,
    status: Annotated[
        str | None, filter_option("pending, running, done, cancelled or failed.")
    ] = None,
    tenant: Tenant = None,
    limit: Limit = 50,
) -> None:
    """List jobs, newest first."""
    remote.print_list(
        "/jobs",
        {"status": status, "tenant_id": tenant},
        {
            "id": Column(value="id", priority=0),
            "action": "action",
            "status": Column(value="status", priority=0),
            "progress": Column(value=format_counts, least=12),
            "created": Column(value=lambda row: format_distance(row["created_at"]), priority=2),
        },
        limit=limit,
        if_empty="There are no jobs.",
    )


@command(app, "show")
def show(remote: Remote, job_id: JobArgument) -> None:
    """Show a job."""
    response = remote.api.get(path_of("jobs", job_id))
    if remote.printed_json(response):
        return
    job = response.value
    print_facts(
        {
            "job": job["id"],
            "kind": job["kind"],
            "action": job["action"],
            "status": job["status"],
            "filter": to_text(job["filter"], layout="spaced") if job["filter"] else "all",
            "progress": f"{format_counts(job)} ({float(job['percent']):g} %)",
            "rate": format_rate(job, now=utc_now()) or None,
            "error": job["error"],
            "created": format_time(job["created_at"]),
            "started": format_time(job["started_at"]),
            "finished": format_time(job["finished_at"]),
            "workflow": job["workflow"]["url"] or job["workflow"]["id"],
        }
    )


@command(app, "watch")
def watch(remote: Remote, job_id: JobArgument) -> None:
    """Watch a job until it ends. Exit code: 0 done, 1 failed, 3 cancelled. Ctrl-C stops watching,
    not the job."""
    watch_job(remote, remote.api.get(path_of("jobs", job_id)).value)


@command(app, "cancel")
def cancel(remote: Remote, job_id: JobArgument) -> None:
    """Stop a job. The deliveries that it has acted on stay as they are."""
    response = remote.api.post(path_of("jobs", job_id, "cancel"))
    if not remote.printed_json(response):
        job = response.value
        typer.echo(f"{job['id']} is being cancelled: {format_counts(job)}.")


def watch_job(remote: Remote, job: Mapping[str, Any]) -> None:
    """Show the job's progress until it ends, print it, and exit with its code unless that is 0.

    Ctrl-C ends only the watching; the exit code is then 130.
    """
    job_id = str(job["id"])
    try:
        with progress_bar(text_column("counts"), text_column("rate")) as bar:
            task = bar.add_task(job_title(job), total=None, counts="", rate="")

            def show(seen: Job) -> None:
                bar.update(
                    task,
                    total=seen["total"] or None,
                    completed=processed_count(seen),
                    counts=format_counts(seen),
                    rate=format_rate(seen, now=utc_now()),
                )

            with remote.api.explained():
                ended = remote.api.client.jobs.wait(job_id, on_progress=show)
    except KeyboardInterrupt:
        print_note(
            f"Stopped watching; the job goes on. Cancel it with `hookfast jobs cancel {job_id}`."
        )
        raise typer.Exit(INTERRUPTED) from None
    if remote.as_json:
        typer.echo(to_text(ended, layout="spaced"))
    else:
        typer.echo(result_sentence(ended))
    if code := EXIT_CODES.get(ended["status"], 1):
        raise typer.Exit(code)


def job_title(job: Mapping[str, Any]) -> str:
    """Return the job's action and id."""
    return printable(f"{job['action']} {job['id']}")


def processed_count(job: Mapping[str, Any]) -> int:
    """Return how many deliveries the job has processed, those it skipped or failed on included."""
    return int(job["done"] + job["skipped"] + job["failed"])


def format_counts(job: Mapping[str, Any]) -> str:
    """Show the job's counts: `1,200/5,000, 3 skipped, 1 failed`."""
    text = f"{processed_count(job):,}/{job['total']:,}"
    for kind in ("skipped", "failed"):
        if job[kind]:
            text += f", {job[kind]:,} {kind}"
    return text


def format_rate(job: Mapping[str, Any], *, now: datetime) -> str:
    """Show the average rate so far and the time left: `48.0/s, 2 min left`."""
    if job["started_at"] is None or not processed_count(job):
        return ""
    end = now if job["finished_at"] is None else datetime.fromisoformat(job["finished_at"])
    seconds = (end - datetime.fromisoformat(job["started_at"])).total_seconds()
    if seconds <= 0:
        return ""
    text = f"{processed_count(job) / seconds:,.1f}/s"
    if job["finished_at"] is None:
        text += f", {format_seconds(job['eta_seconds'])} left"
    return text


def result_sentence(job: Mapping[str, Any]) -> str:
    """Say in a sentence how the job ended."""
    sentence = f"{job['id']} {job['status']}: {format_counts(job)}"
    rate = format_rate(job, now=utc_now())
    sentence += f" ({rate})." if rate else "."
    if job["error"]:
        sentence += f" {printable(job['error'])}"
    return sentence


def started_sentence(job: Mapping[str, Any]) -> str:
    """Say in a sentence that the job was started, and how to watch it."""
    return (
        f"{job['id']}: {job['action']} of {pluralize(job['total'], 'delivery')}. "
        f"Watch it with `hookfast jobs watch {job['id']}`."
    )
