"""An action on many deliveries: counted first, confirmed, started as a job, and followed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import counted, say

if TYPE_CHECKING:
    from hookfast.cli.remote.client import Answer

_PANEL = "The job"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How a job is begun and followed."""

    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=_PANEL)
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count.", rich_help_panel=_PANEL)
    ] = False
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Do not follow the job to its end.", rich_help_panel=_PANEL),
    ] = False
    rate: Annotated[
        float | None, typer.Option(help="Deliveries per second.", rich_help_panel=_PANEL)
    ] = None


def act(
    remote: Remote, path: str, body: Mapping[str, Any], *, verb: str, options: JobOptions
) -> None:
    """Count what `body` is about, ask `<verb> 1,234 deliveries?`, POST it and follow the job.

    The count is of now: deliveries move, so the job may meet a few more or less.
    """
    if options.rate is not None:
        body = {**body, "rate_per_second": options.rate}
    if options.dry_run or not options.yes:
        count = remote.api.post(path, {**body, "dry_run": True})
        new = count.value.get("new_deliveries", 0)
        if options.dry_run:
            _tell(remote, count)
            return
        if not count.value["matching"] and not new:
            _tell(remote, count)
            return
        say(_sentence(count.value))
        confirm(_question(verb, count.value["matching"], new))
    answer = remote.api.post(path, {**body, "dry_run": False})
    _follow(remote, answer, no_wait=options.no_wait)


def confirm(question: str) -> None:
    """Ask on standard error. Ends the command with 1 unless the answer is yes."""
    # not typer.confirm: it writes a space to standard output, where only data belong
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # nobody was there to end the line
        say("")
    if answer.strip().lower() not in ("y", "yes"):
        say("Nothing was done. (--yes answers for you.)")
        raise typer.Exit(1)


def _follow(remote: Remote, answer: Answer, *, no_wait: bool) -> None:
    from hookfast.cli.remote.jobs import follow, started

    if new := answer.value.get("new_deliveries"):
        say(f"{counted(new, 'new delivery')} made.")
    if not no_wait:
        follow(remote, answer.value)
    elif remote.as_json:
        remote.print_json(answer)
    else:
        typer.echo(started(answer.value))


def _tell(remote: Remote, count: Answer) -> None:
    if remote.as_json:
        remote.print_json(count)
    else:
        typer.echo(_sentence(count.value))


def _question(verb: str, matching: int, new: int) -> str:
    question = f"{verb} {counted(matching, 'delivery')}" if matching else ""
    if new:
        made = counted(new, "new delivery")
        question = f"{question} and make {made}" if question else f"Make {made}"
    return f"{question}?"


def _sentence(count: Mapping[str, Any]) -> str:
    """A dry run in words: `12 deliveries match: 10 dead, 2 gone.`"""
    if count["matching"]:
        statuses = ", ".join(f"{n:,} {status}" for status, n in count["by_status"].items())
        verb = "matches" if count["matching"] == 1 else "match"
        sentence = f"{counted(count['matching'], 'delivery')} {verb}: {statuses}."
    else:
        sentence = "No delivery matches."
    if new := count.get("new_deliveries"):
        sentence += f" {counted(new, 'new delivery')} would be made."
    return sentence
