"""`hookfast dead-letters`: what ended without success, and sending it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.deliveries import show_deliveries
from hookfast.cli.remote.options import (
    DeadLetterFilter,
    Endpoint,
    Everything,
    Limit,
    Tenant,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_facts, show_table

app = typer.Typer()


@command(app, "list")
def list_dead_letters(remote: Remote, chosen: DeadLetterFilter, limit: Limit = 50) -> None:
    """List dead letters, newest first."""
    rows = remote.rows("/dead-letters", chosen.members(), limit=limit)
    if rows is not None:
        show_deliveries(rows, nothing="There are no dead letters.")


@command(app, "stats")
def stats(remote: Remote, endpoint: Endpoint = None, tenant: Tenant = None) -> None:
    """Count dead letters by age, reason, event type and endpoint."""
    query = {"endpoint_id": endpoint, "tenant_id": tenant}
    answer = remote.api.get("/dead-letters/stats", query)
    if remote.as_json:
        remote.print_json(answer)
        return
    found: Mapping[str, Any] = answer.value
    if not found["total"]:
        say("There are no dead letters.")
        return
    ages = {name.replace("_", " "): number for name, number in found["by_age"].items()}
    show_facts({"dead letters": found["total"], **ages})
    for member, name in (
        ("by_reason", "reason"),
        ("by_event_type", "event_type"),
        ("by_endpoint", "endpoint_id"),
    ):
        show_table(
            (name.removesuffix("_id").replace("_", " "), "dead letters"),
            [(row[name], row["count"]) for row in found[member]],
            nothing="",
        )


@command(app, "redrive")
def redrive(
    remote: Remote,
    chosen: DeadLetterFilter,
    job: JobOptions,
    everything: Everything = False,
) -> None:
    """Send dead letters again. Give filters, or --all."""
    filters = chosen.members()
    if not filters and not everything:
        raise typer.BadParameter("give filters such as --endpoint, or --all")
    body = {"filter": filters, "all": everything}
    act(remote, "/dead-letters/redrive", body, verb="Resend", options=job)
