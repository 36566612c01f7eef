"""`hookfast deliveries`: look at deliveries, and steer them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.client import Refused, path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import DeliveryFilter, Everything, Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import plain, say, short, show_facts, show_table
from hookfast.cli.remote.times import distance, shown

app = typer.Typer()

Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", show_default=False)]


@command(app, "list")
def list_deliveries(remote: Remote, chosen: DeliveryFilter, limit: Limit = 50) -> None:
    """List deliveries, newest first."""
    rows = remote.rows("/deliveries", chosen.query(), limit=limit)
    if rows is not None:
        show_deliveries(rows, nothing="No delivery matches.")


@command(app, "show")
def show(remote: Remote, delivery_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Show a delivery: where it stands, and every attempt."""
    answer = remote.api.get(path_of("deliveries", delivery_id))
    if remote.as_json:
        remote.print_json(answer)
        return
    found = answer.value
    show_facts(
        {
            "delivery": found["id"],
            "event": f"{found['event_id']} ({found['event_type']})",
            "endpoint": found["endpoint_id"],
            "subscription": found["subscription_id"],
            "tenant": found["tenant_id"],
            "status": found["status"],
            "reason": found["reason"],
            "attempts": f"{found['attempt_count']}, {found['retry_count']} of them retries",
            "next attempt": _shown(found["next_attempt_at"]),
            "deliver at": _shown(found["deliver_at"]),
            "created": shown(found["created_at"]),
            "finished": _shown(found["finished_at"]),
            "workflow": found["workflow"]["url"] or found["workflow"]["id"],
        }
    )
    show_table(
        ("#", "started", "trigger", "took", "result", "status", "what happened"),
        [_attempt(attempt) for attempt in found["attempts"]],
        nothing="No attempt was made yet.",
        wide="what happened",
    )


@command(app, "pause")
def pause(
    remote: Remote,
    chosen: DeliveryFilter,
    job: JobOptions,
    ids: Ids = None,
    everything: Everything = False,
) -> None:
    """Make no attempts until they are resumed. Give ids, or filters, or --all."""
    _steer(remote, "pause", chosen, job, ids=ids, everything=everything)


@command(app, "resume")
def resume(
    remote: Remote,
    chosen: DeliveryFilter,
    job: JobOptions,
    ids: Ids = None,
    everything: Everything = False,
) -> None:
    """Go on where they were paused. Give ids, or filters, or --all."""
    _steer(remote, "resume", chosen, job, ids=ids, everything=everything)


@command(app, "resend")
def resend(
    remote: Remote,
    chosen: DeliveryFilter,
    job: JobOptions,
    ids: Ids = None,
    everything: Everything = False,
) -> None:
    """Send now, finished ones too. Give ids, or filters, or --all."""
    _steer(remote, "resend", chosen, job, ids=ids, everything=everything)


@command(app, "cancel")
def cancel(
    remote: Remote,
    chosen: DeliveryFilter,
    job: JobOptions,
    ids: Ids = None,
    everything: Everything = False,
) -> None:
    """End without another attempt. Give ids, or filters, or --all."""
    _steer(remote, "cancel", chosen, job, ids=ids, everything=everything)


def show_deliveries(rows: list[dict[str, Any]], *, nothing: str) -> None:
    """Print deliveries as a table."""
    show_table(
        ("id", "status", "event type", "endpoint", "attempts", "next", "created", "reason"),
        [
            (
                row["id"],
                row["status"],
                row["event_type"],
                row["endpoint_id"],
                row["attempt_count"],
                _distance(row["next_attempt_at"]),
                distance(row["created_at"]),
                short(row["reason"]),
            )
            for row in rows
        ],
        nothing=nothing,
        wide="reason",
    )


def _steer(
    remote: Remote,
    action: str,
    chosen: DeliveryFilter,
    job: JobOptions,
    *,
    ids: list[str] | None,
    everything: bool,
) -> None:
    filters = chosen.members()
    if ids:
        if filters or everything or job.dry_run:
            raise typer.BadParameter("give ids or filters, not both")
        _steer_each(remote, action, ids)
        return
    if not filters and not everything:
        raise typer.BadParameter("give ids, filters such as --status dead, or --all")
    body = {"action": action, "filter": filters, "all": everything}
    act(remote, "/deliveries/actions", body, verb=action.capitalize(), options=job)


def _steer_each(remote: Remote, action: str, ids: list[str]) -> None:
    """One request per id. What is refused is told, and the others still get theirs."""
    refused = 0
    for delivery_id in ids:
        try:
            answer = remote.api.post(path_of("deliveries", delivery_id, action))
        except Refused as error:
            if error.status in (401, 403):  # true for the others too
                raise
            refused += 1
            say(f"{plain(delivery_id)}: {error.message}")
            continue
        if remote.as_json:
            remote.print_json(answer)
        else:
            typer.echo(f"{answer.value['id']}: {answer.value['action']}, on its way.")
    if refused:
        raise typer.Exit(1)


def _attempt(attempt: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        attempt["number"],
        shown(attempt["started_at"]),
        attempt["trigger"],
        f"{attempt['duration_ms']:,.0f} ms",
        attempt["result"],
        None if attempt["status_code"] is None else str(attempt["status_code"]),
        attempt["error"],
    )


def _shown(moment: str | None) -> str | None:
    return None if moment is None else shown(moment)


def _distance(moment: str | None) -> str | None:
    return None if moment is None else distance(moment)


_POLL_SECONDS = 0.2
_MOST = 1000


@command(app, "wait")
def wait(
    remote: Remote,
    chosen: DeliveryFilter,
    ids: Ids = None,
    awaited: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="STATUS",
            help="Wait until they have this status; default: until none is pending.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Longest time to wait.")
    ] = 30,
) -> None:
    """Wait until deliveries were attempted, or have a status. Give ids or filters.

    Exit code: 0 when they all have it, 1 when the time is up or none matches.
    """
    query = chosen.query()
    if bool(ids) == bool(query):
        raise typer.BadParameter("give ids or filters such as --event, not both")
    deadline = time.monotonic() + timeout
    while True:
        rows = _rows(remote, ids, query)
        waited_for = [row for row in rows if not _has(row, awaited)]
        if rows and not waited_for:
            break
        if time.monotonic() >= deadline:
            say(_too_late(rows, waited_for, awaited))
            raise typer.Exit(1)
        time.sleep(_POLL_SECONDS)
    if remote.as_json:
        remote.print_rows(rows)
    else:
        show_deliveries(rows, nothing="")


def _rows(remote: Remote, ids: list[str] | None, query: dict[str, Any]) -> list[dict[str, Any]]:
    if ids:
        return [remote.api.get(path_of("deliveries", one)).value for one in ids]
    pages = remote.api.pages("/deliveries", query, limit=_MOST)
    return [row for page in pages for row in page.value["data"]]


def _has(row: dict[str, Any], awaited: str | None) -> bool:
    status = str(row["status"])
    return status != "pending" if awaited is None else status == awaited


def _too_late(
    rows: list[dict[str, Any]], waited_for: list[dict[str, Any]], awaited: str | None
) -> str:
    if not rows:
        return "No delivery matches."
    kind = "still pending" if awaited is None else f"not {awaited}"
    first = waited_for[0]
    return (
        f"{len(waited_for)} of {len(rows)} {'is' if len(waited_for) == 1 else 'are'} {kind}, "
        f"such as {first['id']} ({first['status']})."
    )
