"""`hookfast inbox`: what came in, and trying again what failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_facts, show_table
from hookfast.cli.remote.times import distance, shown

app = typer.Typer()

EntryId = Annotated[str, typer.Argument(metavar="ID")]


@command(app, "list")
def list_inbox(
    remote: Remote,
    source: Annotated[str | None, typer.Option(metavar="ID", help="Of this source.")] = None,
    status: Annotated[str | None, typer.Option(help="accepted, suppressed or failed.")] = None,
    event_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Of this event type.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="That came with this key, e.g. id:…; with --source.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Of this tenant.")] = None,
    limit: Limit = 50,
) -> None:
    """List what came in, newest first."""
    query = {
        "source_id": source,
        "status": status,
        "event_type": event_type,
        "key": key,
        "tenant_id": tenant,
    }
    rows = remote.rows("/inbox", query, limit=limit)
    if rows is not None:
        show_table(
            ("id", "status", "event type", "key", "again", "received"),
            [
                (
                    row["id"],
                    row["status"],
                    row["event_type"],
                    row["key"],
                    row["duplicates"],
                    distance(row["received_at"]),
                )
                for row in rows
            ],
            nothing="Nothing came in that matches.",
            wide="key",
        )


@command(app, "show")
def show(remote: Remote, inbox_id: EntryId) -> None:
    """Show what came in, without its body."""
    answer = remote.api.get(path_of("inbox", inbox_id))
    if remote.as_json:
        remote.print_json(answer)
    else:
        show_facts(_facts(answer.value))


@command(app, "retry")
def retry(remote: Remote, inbox_id: EntryId) -> None:
    """Emit the event of what the schema of its event type refused."""
    answer = remote.api.post(path_of("inbox", inbox_id, "retry"))
    if remote.as_json:
        remote.print_json(answer)
        return
    entry = answer.value
    if entry["suppressed_by"] is not None:
        say(f"{entry['suppressed_by']} stands for the same fact; nothing was emitted.")
    else:
        say(f"It is the event {entry['event_id']}.")


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "entry": entry["id"],
        "source": entry["source_id"],
        "status": entry["status"],
        "because": entry["last_error"],
        "event": entry["event_id"],
        "event type": entry["event_type"],
        "suppressed by": entry["suppressed_by"],
        "key": entry["key"],
        "business key": entry["business_key"],
        "content type": entry["content_type"],
        "bytes": entry["size"],
        "sha-256": entry["payload_sha256"],
        "headers": [f"{name}: {value}" for name, value in entry["headers"]] or None,
        "came again": entry["duplicates"],
        "with other bytes": entry["conflicts"] or None,
        "received": shown(entry["received_at"]),
        "seen last": shown(entry["last_seen_at"]),
    }
