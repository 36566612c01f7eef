"""`hookfast subscriptions`: which event types go to which endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import (
    DeletedSubscription,
    Endpoint,
    EndpointArgument,
    Limit,
    SubscriptionArgument,
    Tenant,
    Yes,
    filter_option,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note
from hookfast.cli.remote.times import format_distance, format_time

app = typer.Typer()

Payload = Annotated[
    str | None,
    typer.Option(
        metavar="full|thin|raw",
        help="full: the event's data; thin: its id and URL; raw: the request that a source "
        "received, unchanged.",
    ),
]


@command(app, "list")
def list_subscriptions(
    remote: Remote,
    endpoint: Endpoint = None,
    tenant: Tenant = None,
    matches: Annotated[
        str | None,
        filter_option(
            "Active ones that get an event of this type; of one tenant with --tenant.",
            metavar="TYPE",
        ),
    ] = None,
    limit: Limit = 50,
) -> None:
    """List subscriptions, newest first; with --matches, who would receive an event."""
    remote.print_list(
        "/subscriptions",
        {"endpoint_id": endpoint, "tenant_id": tenant, "matches": matches},
        {
            "id": Column(value="id", priority=0),
            "active": "active",
            "endpoint": Column(value="endpoint_id", least=12, noun="endpoint"),
            "events": Column(value="events", least=14),
            "payload": Column(value="payload", priority=4),
            "tenant": Column(value="tenant_id", priority=3, least=8, noun="tenant"),
            "created": Column(value=lambda row: format_distance(row["created_at"]), priority=5),
        },
        limit=limit,
        if_empty="There are no subscriptions."
        if matches is None
        else f"No active subscription matches {matches}: nobody would get such an event.",
    )


@command(app, "show")
def show(remote: Remote, subscription_id: SubscriptionArgument) -> None:
    """Show a subscription."""
    response = remote.api.get(path_of("subscriptions", subscription_id))
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "create")
def create(
    remote: Remote,
    endpoint_id: EndpointArgument,
    events: Annotated[
        list[str],
        typer.Argument(metavar="PATTERN…", help="Event types or patterns: 'order.**'."),
    ],
    payload: Payload = None,
    active: Annotated[
        bool, typer.Option("--active/--inactive", help="Whether events are sent to it now.")
    ] = True,
) -> None:
    """Subscribe an endpoint to event types. Its receiver first has to agree to new ones."""
    form: dict[str, Any] = {"endpoint_id": endpoint_id, "events": events, "active": active}
    if payload is not None:
        form["payload"] = payload
    response = remote.api.post("/subscriptions", form)
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "update")
def update(
    remote: Remote,
    subscription_id: SubscriptionArgument,
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Replaces its event types; repeatable."),
    ] = None,
    payload: Payload = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Send events to it, or stop.")
    ] = None,
) -> None:
    """Change a subscription's event types or payload, or switch it on or off."""
    given = {"events": events or None, "payload": payload, "active": active}
    patch = {name: value for name, value in given.items() if value is not None}
    if not patch:
        raise typer.BadParameter("give --events, --payload, --active or --inactive")
    response = remote.api.patch(path_of("subscriptions", subscription_id), patch)
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "delete")
def delete(remote: Remote, subscription_id: DeletedSubscription, yes: Yes = False) -> None:
    """Delete a subscription. Its deliveries go on."""
    if not yes:
        subscription = remote.api.get(path_of("subscriptions", subscription_id)).value
        endpoint = remote.named("endpoint", subscription["endpoint_id"])
        print_note(f"{subscription['id']} sends {', '.join(subscription['events'])} to {endpoint}.")
        confirm("Delete it?")
    remote.api.delete(path_of("subscriptions", subscription_id))
    print_note(f"{subscription_id} is deleted.")


def _facts(remote: Remote, subscription: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "subscription": subscription["id"],
        "events": subscription["events"],
        "endpoint": remote.named("endpoint", subscription["endpoint_id"]),
        "tenant": remote.named("tenant", subscription["tenant_id"]),
        "payload": subscription["payload"],
        "active": subscription["active"],
        "created": format_time(subscription["created_at"]),
        "updated": format_time(subscription["updated_at"]),
    }
