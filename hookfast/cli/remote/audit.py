"""`hookfast audit`: the log of changes, and who made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.commands import command
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import Limit, Since, Tenant, Until, filter_option
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, truncate
from hookfast.cli.remote.times import format_distance
from hookfast.strict_json.text import to_text

app = typer.Typer()

_LONG_VALUE = 40


@command(app, "list")
def list_audit(
    remote: Remote,
    resource: Annotated[
        str | None, filter_option("Of this endpoint, key, event type, …", metavar="ID")
    ] = None,
    action: Annotated[
        str | None, filter_option("With this action: endpoint.update, delivery.cancel, …")
    ] = None,
    key: Annotated[
        str | None,
        filter_option("Made with this API key: id, name or a part.", metavar="KEY"),
        IdOf("API key"),
    ] = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List changes, newest first: who made them, and what they changed."""
    query = {
        "resource_id": resource,
        "action": action,
        "key_id": key,
        "tenant_id": tenant,
        "since": since,
        "until": until,
    }
    remote.print_list(
        "/audit",
        query,
        {
            "at": lambda row: format_distance(row["at"]),
            "by": Column(value=lambda row: row["key_id"] or row["actor"], least=8, noun="API key"),
            "from": Column(value="client_address", priority=3),
            "action": "action",
            "resource": Column(value="resource_id", priority=0),
            "changes": Column(
                value=lambda row: format_changes(row["changes"]), priority=2, least=16
            ),
        },
        limit=limit,
        if_empty="No change matches.",
    )


def format_changes(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Show changes in one line: `state: enabled → paused, name: Acme`; `–name` was removed."""
    return ", ".join(_format_change(name, change) for name, change in changes.items())


def _format_change(name: str, change: Mapping[str, Any]) -> str:
    if "after" not in change:
        return f"–{name}"
    before = f"{_format_value(change['before'])} → " if "before" in change else ""
    return f"{name}: {before}{_format_value(change['after'])}"


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) and value else to_text(value, layout="spaced")
    return truncate(text, _LONG_VALUE) or ""
