"""`hookfast retention`: how long rows are kept, what the last runs deleted, and starting a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from hookfast.cli.remote.commands import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note
from hookfast.cli.remote.times import format_distance, format_time
from hookfast.plural import pluralize
from hookfast.strict_json.text import to_text

app = typer.Typer()

_POLL_SECONDS = 1.0


@command(app, "show")
def show(remote: Remote) -> None:
    """Show how long everything is kept, when old rows are deleted next, and the last runs."""
    response = remote.api.get("/retention")
    if remote.printed_json(response):
        return
    found = response.value
    ages = {
        age["name"].replace("_", " "): "for ever"
        if age["days"] is None
        else f"{float(age['days']):g} d"
        for age in found["ages"]
    }
    print_facts(ages | {"next run": format_time(found["next_run_at"])})
    remote.print_table(
        found["runs"],
        {
            "run": Column(value="id", priority=0),
            "started": lambda run: format_distance(run["started_at"]),
            "status": lambda run: f"{run['status']}{', dry run' if run['dry_run'] else ''}",
            "deleted": lambda run: _total(run, "deleted"),
            "kept": lambda run: _total(run, "kept"),
            "partitions dropped": Column(value=lambda run: _total(run, "partitions"), priority=3),
            "figures added up": Column(value=lambda run: f"{run['rolled_up']:,}", priority=4),
        },
        if_empty="No run yet.",
    )
    _print_notes(found["runs"])


@command(app, "run")
def run(
    remote: Remote,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what it would delete.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the run has ended.")] = True,
) -> None:
    """Delete expired rows now, and show how many. Ctrl-C stops waiting, not the run."""
    started = remote.api.post("/retention/runs", {"dry_run": dry_run})
    if not wait:
        if not remote.printed_json(started):
            typer.echo(f"{started.value['id']} was started.")
        return
    ended = _wait_for_end(remote, started.value["id"])
    if remote.as_json:
        typer.echo(to_text(ended, layout="spaced"))
        return
    remote.print_table(
        ended["sweeps"],
        {
            "table": "name",
            "before": lambda sweep: "–" if sweep["before"] is None else sweep["before"][:10],
            "would delete" if dry_run else "deleted": "deleted",
            "kept": "kept",
            "partitions": "partitions",
        },
        if_empty="There is nothing to delete.",
    )
    _print_notes([ended])


def _wait_for_end(remote: Remote, run_id: str) -> dict[str, Any]:
    """Return the run once it is done."""
    while True:
        for one in remote.api.get("/retention").value["runs"]:
            if one["id"] == run_id and one["status"] == "done":
                found: dict[str, Any] = one
                return found
        time.sleep(_POLL_SECONDS)


def _total(run: Mapping[str, Any], name: str) -> str:
    return f"{sum(sweep[name] for sweep in run['sweeps']):,}"


def _print_notes(runs: Sequence[Mapping[str, Any]]) -> None:
    """Print whether figures differed in the newest of these runs, and the partitions that it could
    not drop, and why."""
    for run in runs[:1]:
        if gauges := run["gauges_corrected"]:
            print_note(
                f"Corrected {pluralize(gauges, 'gauge')} that differed from the rows; the log has "
                "the endpoints. Please report it."
            )
        if hours := run["hours_different"]:
            print_note(
                f"In {hours} of the last 24 hours, figures differ from the rows; the log says "
                "which. Please report it."
            )
        for sweep in run["sweeps"]:
            for pin in sweep["pinned"]:
                print_note(f"{pin['partition']} was not dropped: {pin['reason']}")
