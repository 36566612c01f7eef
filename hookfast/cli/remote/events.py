"""`hookfast events`: list and show events, and deliver them again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.deliveries import DELIVERY_COLUMNS
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import (
    EventArgument,
    Limit,
    Since,
    Tenant,
    Until,
    filter_option,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note
from hookfast.cli.remote.times import format_distance, format_time, format_time_if_set
from hookfast.plural import pluralize
from hookfast.strict_json.text import to_text

app = typer.Typer()

_SHOWN_DELIVERIES = 50


@command(app, "list")
def list_events(
    remote: Remote,
    event_type: Annotated[
        str | None, filter_option("Of this type.", "--type", metavar="TYPE")
    ] = None,
    tenant: Tenant = None,
    key: Annotated[
        str | None,
        filter_option("Emitted with this key.", "--idempotency-key", metavar="KEY"),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List events, newest first."""
    query = {
        "type": event_type,
        "tenant_id": tenant,
        "idempotency_key": key,
        "since": since,
        "until": until,
    }
    remote.print_list(
        "/events",
        query,
        {
            "id": Column(value="id", priority=0),
            "type": Column(value="type", least=12),
            "tenant": Column(
                value=lambda row: row["tenant_id"] or "every tenant",
                priority=3,
                least=10,
                noun="tenant",
            ),
            "deliveries": Column(value="deliveries", priority=2),
            "created": lambda row: format_distance(row["created_at"]),
        },
        limit=limit,
        if_empty="No event matches.",
    )


@command(app, "show")
def show(remote: Remote, event_id: EventArgument) -> None:
    """Show an event and its deliveries."""
    response = remote.api.get(path_of("events", event_id))
    if remote.printed_json(response):
        return
    event = response.value
    print_facts(
        {
            "event": event["id"],
            "type": event["type"],
            "tenant": remote.named("tenant", event["tenant_id"]) or "every tenant",
            "created": format_time(event["created_at"]),
            "deliver at": format_time_if_set(event["deliver_at"]),
            "ordering key": event["ordering_key"],
            "data": to_text(event["data"], layout="spaced"),
        }
    )
    page = remote.api.get(path_of("events", event_id, "deliveries"), {"limit": _SHOWN_DELIVERIES})
    remote.print_table(page.value["data"], DELIVERY_COLUMNS, if_empty="It has no deliveries.")
    if page.value["next_cursor"] is not None:
        print_note(
            f"These are the newest {pluralize(_SHOWN_DELIVERIES, 'delivery')}; more with "
            f"`hookfast deliveries list --event {event['id']}`."
        )


@command(app, "replay")
def replay(
    remote: Remote,
    event_id: EventArgument,
    job: JobOptions,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="ENDPOINT", help="Only to this endpoint: id, name, URL or a part."),
        IdOf("endpoint"),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only the deliveries that ended without success.")
    ] = False,
    include_new: Annotated[
        bool,
        typer.Option(
            "--include-new", help="Also to endpoints that subscribed after it was emitted."
        ),
    ] = False,
) -> None:
    """Send an event again to every endpoint that it was sent to."""
    body: dict[str, Any] = {"only": "failed" if failed else "all", "include_new": include_new}
    if endpoint is not None:
        body["endpoint_id"] = endpoint
    act(remote, path_of("events", event_id, "replay"), body, verb="Resend", options=job)
