"""An action on many deliveries: counted first, confirmed, started as a job, and watched."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import print_note
from hookfast.plural import pluralize

if TYPE_CHECKING:
    from hookfast.cli.remote.api import ApiResponse

_PANEL = "The job"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a command that starts a job."""

    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=_PANEL),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count.", rich_help_panel=_PANEL)
    ] = False
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Start the job and do not watch it.", rich_help_panel=_PANEL
        ),
    ] = False
    rate: Annotated[
        float | None, typer.Option(help="Deliveries per second.", rich_help_panel=_PANEL)
    ] = None


def act(
    remote: Remote, path: str, body: Mapping[str, Any], *, verb: str, options: JobOptions
) -> None:
    """Count the deliveries that `body` selects, ask `<verb> 1,234 deliveries?`, POST it and watch
    the job.

    Deliveries change meanwhile, so the job may act on a few more or less than were counted.
    """
    if options.rate is not None:
        body = {**body, "rate_per_second": options.rate}
    if options.dry_run or not options.yes:
        count = remote.api.post(path, {**body, "dry_run": True})
        matching, new = count.value["matching"], count.value.get("new_deliveries", 0)
        if options.dry_run or not (matching or new):
            if not remote.printed_json(count):
                typer.echo(_count_sentence(count.value))
            return
        print_note(_count_sentence(count.value))
        confirm(_question(verb, matching, new))
    response = remote.api.post(path, {**body, "dry_run": False})
    _watch(remote, response, no_wait=options.no_wait)


def confirm(question: str) -> None:
    """Ask on standard error. Ends the command with 1 unless the reply is yes."""
    # not typer.confirm: it writes a space to standard output, which is for data only
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    reply = sys.stdin.readline()
    if not reply.endswith("\n"):  # the input ended without a line
        print_note("")
    if reply.strip().lower() not in ("y", "yes"):
        print_note("Nothing was done. (--yes confirms without asking.)")
        raise typer.Exit(1)


def _watch(remote: Remote, response: ApiResponse, *, no_wait: bool) -> None:
    from hookfast.cli.remote.jobs import started_sentence, watch_job

    if new := response.value.get("new_deliveries"):
        print_note(f"{pluralize(new, 'new delivery')} created.")
    if not no_wait:
        watch_job(remote, response.value)
    elif not remote.printed_json(response):
        typer.echo(started_sentence(response.value))


def _question(verb: str, matching: int, new: int) -> str:
    question = f"{verb} {pluralize(matching, 'delivery')}" if matching else ""
    if new:
        created = pluralize(new, "new delivery")
        question = f"{question} and create {created}" if question else f"Create {created}"
    return f"{question}?"


def _count_sentence(count: Mapping[str, Any]) -> str:
    """Say the result of a dry run: `12 deliveries match: 10 dead, 2 gone.`"""
    if count["matching"]:
        statuses = ", ".join(f"{n:,} {status}" for status, n in count["by_status"].items())
        verb = "matches" if count["matching"] == 1 else "match"
        sentence = f"{pluralize(count['matching'], 'delivery')} {verb}: {statuses}."
    else:
        sentence = "No delivery matches."
    if new := count.get("new_deliveries"):
        sentence += f" {pluralize(new, 'new delivery')} would be created."
    return sentence
