"""`hookfast audit`: who changed what, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit, Tenant
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import short, show_table
from hookfast.cli.remote.times import ago, distance

app = typer.Typer()

_LONG_VALUE = 40


@command(app, "list")
def list_audit(
    remote: Remote,
    resource: Annotated[
        str | None, typer.Option(metavar="ID", help="Of this endpoint, key, event type, …")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Of this kind: endpoint.update, delivery.cancel, …")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="ID", help="Made with this API key.")] = None,
    tenant: Tenant = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Made then or later: 2h, 3d, or RFC 3339."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Made before then.")] = None,
    limit: Limit = 50,
) -> None:
    """List changes, newest first: who made them, and what is different since."""
    query = {
        "resource_id": resource,
        "action": action,
        "key_id": key,
        "tenant_id": tenant,
        "since": None if since is None else ago(since),
        "until": None if until is None else ago(until),
    }
    rows = remote.rows("/audit", query, limit=limit)
    if rows is not None:
        show_table(
            ("made", "by", "from", "action", "what", "changes"),
            [
                (
                    distance(row["at"]),
                    row["key_id"] or row["actor"],
                    row["client_address"],
                    row["action"],
                    row["resource_id"],
                    told(row["changes"]),
                )
                for row in rows
            ],
            nothing="There is no change.",
            wide="changes",
        )


def told(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Changes in one line: `state: enabled → paused, name: Acme`; what is gone is `–name`."""
    return ", ".join(_told(name, change) for name, change in changes.items())


def _told(name: str, change: Mapping[str, Any]) -> str:
    if "after" not in change:
        return f"–{name}"
    before = f"{_value(change['before'])} → " if "before" in change else ""
    return f"{name}: {before}{_value(change['after'])}"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return short(text, _LONG_VALUE) or ""
