"""`hookfast inbox`: list and show received requests, and retry the failed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import (
    InboxArgument,
    Limit,
    Since,
    Source,
    Tenant,
    Until,
    filter_option,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note
from hookfast.cli.remote.times import format_distance, format_time

app = typer.Typer()


@command(app, "list")
def list_inbox(
    remote: Remote,
    source: Source = None,
    status: Annotated[str | None, filter_option("accepted, suppressed or failed.")] = None,
    event_type: Annotated[
        str | None, filter_option("Of this event type.", "--type", metavar="TYPE")
    ] = None,
    key: Annotated[
        str | None, filter_option("With this key, such as id:…; requires --source.")
    ] = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List received requests, newest first."""
    query = {
        "source_id": source,
        "status": status,
        "event_type": event_type,
        "key": key,
        "tenant_id": tenant,
        "since": since,
        "until": until,
    }
    remote.print_list(
        "/inbox",
        query,
        {
            "id": Column(value="id", priority=0),
            "status": Column(value="status", priority=0),
            "event type": Column(value="event_type", least=12),
            "key": Column(value="key", priority=4, least=12),
            "duplicates": Column(value="duplicates", priority=3),
            "received": lambda row: format_distance(row["received_at"]),
        },
        limit=limit,
        if_empty="No received request matches.",
    )


@command(app, "show")
def show(remote: Remote, inbox_id: InboxArgument) -> None:
    """Show a received request, without its body."""
    response = remote.api.get(path_of("inbox", inbox_id))
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "retry")
def retry(remote: Remote, inbox_id: InboxArgument) -> None:
    """Emit the event of a request that violated its schema, once that is fixed."""
    response = remote.api.post(path_of("inbox", inbox_id, "retry"))
    if remote.printed_json(response):
        return
    entry = response.value
    if entry["suppressed_by"] is not None:
        print_note(
            f"Suppressed by {entry['suppressed_by']}, which reports the same fact; no event was "
            "emitted."
        )
    else:
        print_note(f"It was emitted as the event {entry['event_id']}.")


def _facts(remote: Remote, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "entry": entry["id"],
        "source": remote.named("source", entry["source_id"]),
        "status": entry["status"],
        "last error": entry["last_error"],
        "event": entry["event_id"],
        "event type": entry["event_type"],
        "suppressed by": entry["suppressed_by"],
        "key": entry["key"],
        "business key": entry["business_key"],
        "content type": entry["content_type"],
        "size": entry["size"],
        "sha-256": entry["payload_sha256"],
        "headers": [f"{name}: {value}" for name, value in entry["headers"]] or None,
        "duplicates": entry["duplicates"],
        "conflicts": entry["conflicts"] or None,
        "received": format_time(entry["received_at"]),
        "last seen": format_time(entry["last_seen_at"]),
    }
