"""`hookfast jobs`: how far actions on many deliveries have come."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.delivery_filter import Limit, Tenant
from hookfast.cli.remote.job_progress import counts, follow, pace
from hookfast.cli.remote.moment import distance, shown
from hookfast.cli.remote.option_groups import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import show_facts, show_table
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
