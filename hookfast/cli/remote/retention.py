"""`hookfast retention`: what is kept for how long, what the last runs deleted, and one more now."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.commands import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_facts, show_table
from hookfast.cli.remote.times import distance, shown

app = typer.Typer()

_LOOK_EVERY_SECONDS = 1.0


@command(app, "show")
def show(remote: Remote) -> None:
    """Show how long everything is kept, when old rows go next, and what went last."""
    answer = remote.api.get("/retention")
    if remote.as_json:
        remote.print_json(answer)
        return
    found = answer.value
    kept = {
        age["name"].replace("_", " "): "for ever" if age["days"] is None else f"{age['days']:g} d"
        for age in found["ages"]
    }
    show_facts(kept | {"next run": shown(found["next_run_at"])})
    show_table(
        ("run", "began", "status", "deleted", "kept", "partitions dropped"),
        [
            (
                run["id"],
                distance(run["started_at"]),
                f"{run['status']}, dry run" if run["dry_run"] else run["status"],
                *(_sum(run, name) for name in ("deleted", "kept", "partitions")),
            )
            for run in found["runs"]
        ],
        nothing="It has not run yet.",
    )
    for pin in _pinned(found["runs"]):
        say(pin)


@command(app, "run")
def run(
    remote: Remote,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what it would delete.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait for its end.")] = True,
) -> None:
    """Delete now what is past its age, and show what it came to. Ctrl-C stops waiting, not the
    run."""
    started = remote.api.post("/retention/runs", {"dry_run": dry_run})
    if not wait:
        if remote.as_json:
            remote.print_json(started)
        else:
            typer.echo(f"{started.value['id']} has begun.")
        return
    ended = _ended(remote, started.value["id"])
    if remote.as_json:
        typer.echo(json.dumps(ended, ensure_ascii=False))
        return
    show_table(
        ("table", "from before", "would go" if dry_run else "deleted", "kept", "partitions"),
        [
            (
                sweep["name"],
                "–" if sweep["before"] is None else sweep["before"][:10],
                f"{sweep['deleted']:,}",
                f"{sweep['kept']:,}",
                str(sweep["partitions"]),
            )
            for sweep in ended["sweeps"]
        ],
        nothing="There is nothing to delete.",
    )
    for pin in _pinned([ended]):
        say(pin)


def _ended(remote: Remote, run_id: str) -> dict[str, Any]:
    """The run, once it is over."""
    while True:
        for one in remote.api.get("/retention").value["runs"]:
            if one["id"] == run_id and one["status"] == "done":
                found: dict[str, Any] = one
                return found
        time.sleep(_LOOK_EVERY_SECONDS)


def _sum(run: Mapping[str, Any], name: str) -> str:
    return f"{sum(sweep[name] for sweep in run['sweeps']):,}"


def _pinned(runs: list[Any]) -> list[str]:
    """What the newest of these runs could not drop."""
    return [
        f"{pin['partition']} stays: {pin['reason']}"
        for run in runs[:1]
        for sweep in run["sweeps"]
        for pin in sweep["pinned"]
    ]
