"""`hookfast tenants`: list, create, and see what they use."""

from __future__ import annotations

from typing import Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit, TenantArgument
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, printable
from hookfast.cli.remote.times import format_distance, format_time

app = typer.Typer()


@command(app, "list")
def list_tenants(remote: Remote, limit: Limit = 50) -> None:
    """List tenants, newest first."""
    remote.print_list(
        "/tenants",
        {},
        {
            "id": Column(value="id", priority=0),
            "name": Column(value="name", least=16),
            "created": Column(
                value=lambda row: format_time(row["created_at"]),
                narrow=lambda row: format_distance(row["created_at"]),
                priority=2,
            ),
        },
        limit=limit,
        if_empty="There are no tenants. Create one with `hookfast tenants create NAME`.",
    )


@command(app, "create")
def create(remote: Remote, name: str) -> None:
    """Create a tenant."""
    response = remote.api.post("/tenants", {"name": name})
    if not remote.printed_json(response):
        tenant = response.value
        typer.echo(f"{tenant['id']} is the tenant {printable(tenant['name'])}.")


@command(app, "usage")
def usage(remote: Remote, tenant_id: TenantArgument) -> None:
    """Show what a tenant has, and its quotas."""
    response = remote.api.get(path_of("tenants", tenant_id, "usage"))
    if remote.printed_json(response):
        return
    found = response.value
    print_facts(
        {
            **{name: _used(found[name]) for name in ("endpoints", "subscriptions", "sources")},
            "events today": _used(found["events_per_day"]),
            "new day": format_time(found["events_per_day"]["resets_at"]),
        }
    )


def _used(part: dict[str, Any]) -> str:
    """Return how much of a quota is used."""
    if part["limit"] is None:
        return "no limit" if part["used"] is None else f"{part['used']:,}, no limit"
    return f"{part['used']:,} of {part['limit']:,}"
