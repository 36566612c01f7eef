"""`hookfast dead-letters`: deliveries that ended without success, and sending them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.deliveries import DELIVERY_COLUMNS
from hookfast.cli.remote.options import DeadLetterFilter, Endpoint, Everything, Limit, Tenant
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note

app = typer.Typer()

_NONE = "There are no dead letters."
_AGES = {
    "under_1_hour": "under 1 hour ago",
    "under_1_day": "1 to 24 hours ago",
    "under_7_days": "1 to 7 days ago",
    "older": "longer ago",
}
"""How long ago dead letters died: the API's members, and what a person reads."""


@command(app, "list")
def list_dead_letters(remote: Remote, selected: DeadLetterFilter, limit: Limit = 50) -> None:
    """List dead letters, newest first."""
    remote.print_list(
        "/dead-letters",
        selected.members(),
        DELIVERY_COLUMNS,
        limit=limit,
        if_empty=_NONE,
    )


@command(app, "stats")
def stats(remote: Remote, endpoint: Endpoint = None, tenant: Tenant = None) -> None:
    """Count dead letters by age, reason, event type and endpoint."""
    query = {"endpoint_id": endpoint, "tenant_id": tenant}
    response = remote.api.get("/dead-letters/stats", query)
    if remote.printed_json(response):
        return
    found: Mapping[str, Any] = response.value
    if not found["total"]:
        print_note(_NONE)
        return
    ages = {text: found["by_age"][name] for name, text in _AGES.items()}
    print_facts({"dead letters": found["total"], **ages})
    for group, heading, column in (
        ("by_reason", "reason", Column(value="reason")),
        ("by_event_type", "event type", Column(value="event_type", least=20)),
        ("by_endpoint", "endpoint", Column(value="endpoint_id", least=20, noun="endpoint")),
    ):
        remote.print_table(found[group], {heading: column, "dead letters": "count"}, if_empty="")


@command(app, "redrive")
def redrive(
    remote: Remote, selected: DeadLetterFilter, job: JobOptions, everything: Everything = False
) -> None:
    """Send dead letters again. Give filters, or --all."""
    filters = selected.members()
    if not filters and not everything:
        raise typer.BadParameter("give filters such as --endpoint, or --all")
    body = {"filter": filters, "all": everything}
    act(remote, "/dead-letters/redrive", body, verb="Resend", options=job)
