"""`hookfast events`: look at events, and deliver them again."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.deliveries import show_deliveries
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import counted, say, show_facts, show_table
from hookfast.cli.remote.times import ago, distance, shown

app = typer.Typer()

EventId = Annotated[str, typer.Argument(metavar="ID")]
_SHOWN_DELIVERIES = 50


@command(app, "list")
def list_events(
    remote: Remote,
    event_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Of this type.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Of this tenant.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="KEY", help="The one that was emitted with this key."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Created then or later: 2h, 3d, or RFC 3339."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Created before then.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rows.")] = 50,
) -> None:
    """List events, newest first."""
    query = {
        "type": event_type,
        "tenant_id": tenant,
        "idempotency_key": key,
        "since": None if since is None else ago(since),
        "until": None if until is None else ago(until),
    }
    rows = remote.rows("/events", query, limit=limit)
    if rows is not None:
        show_table(
            ("id", "type", "tenant", "deliveries", "created"),
            [
                (
                    row["id"],
                    row["type"],
                    row["tenant_id"] or "every tenant",
                    row["deliveries"],
                    distance(row["created_at"]),
                )
                for row in rows
            ],
            nothing="No event matches.",
        )


@command(app, "show")
def show(remote: Remote, event_id: EventId) -> None:
    """Show an event and its deliveries."""
    answer = remote.api.get(path_of("events", event_id))
    if remote.as_json:
        remote.print_json(answer)
        return
    event = answer.value
    show_facts(
        {
            "event": event["id"],
            "type": event["type"],
            "tenant": event["tenant_id"] or "every tenant",
            "created": shown(event["created_at"]),
            "deliver at": None if event["deliver_at"] is None else shown(event["deliver_at"]),
            "data": json.dumps(event["data"], ensure_ascii=False),
        }
    )
    page = remote.api.get(path_of("events", event_id, "deliveries"), {"limit": _SHOWN_DELIVERIES})
    show_deliveries(page.value["data"], nothing="It has no deliveries.")
    if page.value["next_cursor"] is not None:
        say(
            f"These are the newest {counted(_SHOWN_DELIVERIES, 'delivery')}; more with "
            f"`hookfast deliveries list --event {event['id']}`."
        )


@command(app, "replay")
def replay(
    remote: Remote,
    event_id: EventId,
    job: JobOptions,
    endpoint: Annotated[
        str | None, typer.Option(metavar="ID", help="Only to this endpoint.")
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only what ended without success.")
    ] = False,
    include_new: Annotated[
        bool,
        typer.Option("--include-new", help="Also to those who subscribed after it was emitted."),
    ] = False,
) -> None:
    """Send an event again, to all who got it."""
    body: dict[str, Any] = {"only": "failed" if failed else "all", "include_new": include_new}
    if endpoint is not None:
        body["endpoint_id"] = endpoint
    act(remote, path_of("events", event_id, "replay"), body, verb="Resend", options=job)
