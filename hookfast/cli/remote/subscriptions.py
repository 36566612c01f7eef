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
    MappingFile,
    MappingText,
    SubscriptionArgument,
    Tenant,
    Yes,
    filter_option,
    given_text,
    parse_object,
    read_mapping,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import (
    Column,
    print_facts,
    print_note,
    print_warnings,
)
from hookfast.cli.remote.times import format_distance, format_time
from hookfast.events.filter import filter_text
from hookfast.plural import pluralize

app = typer.Typer()

Payload = Annotated[
    str | None,
    typer.Option(
        metavar="full|thin|raw|mapped",
        help="full: the event's data; thin: its id and URL; raw: the request that a source "
        "received, unchanged; mapped: what --mapping makes of the event.",
    ),
]

Filter = Annotated[
    str | None,
    typer.Option(
        metavar="JSON|@FILE",
        help="Only events whose data match: '{\"amount\": {\"$gte\": 100}}'. '{}' removes it.",
    ),
]

Ordered = Annotated[
    bool | None,
    typer.Option(
        "--ordered/--unordered",
        help="Send events with one ordering key one after the other, or in any order.",
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
    data: Annotated[
        str | None,
        filter_option(
            "With --matches: of these, whose filter an event with this data passes.",
            metavar="JSON|@FILE",
        ),
    ] = None,
    limit: Limit = 50,
) -> None:
    """List subscriptions, newest first; with --matches, who would receive an event."""
    if data is not None:
        data = given_text(data, option="--data")
    remote.print_list(
        "/subscriptions",
        {"endpoint_id": endpoint, "tenant_id": tenant, "matches": matches, "data": data},
        {
            "id": Column(value="id", priority=0),
            "active": "active",
            "endpoint": Column(value="endpoint_id", least=12, noun="endpoint"),
            "events": Column(value="events", least=14),
            "filter": Column(value=_filter_text, priority=2, least=14),
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
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
    filter: Filter = None,
    active: Annotated[
        bool, typer.Option("--active/--inactive", help="Whether events are sent to it now.")
    ] = True,
    ordered: Ordered = None,
) -> None:
    """Subscribe an endpoint to event types. Its receiver first has to agree to new ones."""
    form: dict[str, Any] = {"endpoint_id": endpoint_id, "events": events, "active": active}
    form |= _payload(payload, read_mapping(mapping, mapping_file))
    if filter is not None:
        form["filter"] = parse_object(filter, option="--filter")
    if ordered is not None:
        form["ordered"] = ordered
    response = remote.api.post("/subscriptions", form)
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))
        print_warnings(response.value)


@command(app, "preview")
def preview(
    remote: Remote,
    endpoint_id: EndpointArgument,
    events: Annotated[
        list[str],
        typer.Argument(metavar="PATTERN…", help="Event types or patterns: 'order.**'."),
    ],
    filter: Filter = None,
) -> None:
    """Show which of the last events a filter would let pass, before you create or change it."""
    form: dict[str, Any] = {"endpoint_id": endpoint_id, "events": events}
    if filter is not None:
        form["filter"] = parse_object(filter, option="--filter")
    response = remote.api.post("/subscriptions/preview", form)
    if remote.printed_json(response):
        return
    found = response.value
    remote.print_table(
        found["events"],
        {
            "id": Column(value="id", priority=0),
            "matches": "matches",
            "type": Column(value="type", least=12),
            "created": Column(value=lambda row: format_distance(row["created_at"]), priority=2),
        },
        if_empty="No event of these types was emitted lately.",
    )
    verb = "matches" if found["matching"] == 1 else "match"
    print_note(f"{found['matching']} of the last {pluralize(found['checked'], 'event')} {verb}.")


@command(app, "update")
def update(
    remote: Remote,
    subscription_id: SubscriptionArgument,
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Replaces its event types; repeatable."),
    ] = None,
    payload: Payload = None,
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
    filter: Filter = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Send events to it, or stop.")
    ] = None,
    ordered: Ordered = None,
) -> None:
    """Change a subscription's event types, payload, filter or order, or switch it on or off."""
    conditions = None if filter is None else parse_object(filter, option="--filter")
    given = {
        "events": events or None,
        "filter": conditions,
        "active": active,
        "ordered": ordered,
    }
    patch: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    patch |= _payload(payload, read_mapping(mapping, mapping_file))
    if not patch:
        raise typer.BadParameter(
            "give --events, --payload, --mapping, --filter, --active, --inactive, --ordered or "
            "--unordered"
        )
    response = remote.api.patch(path_of("subscriptions", subscription_id), patch)
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))
        print_warnings(response.value)


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


def _filter_text(subscription: Mapping[str, Any]) -> str | None:
    conditions = subscription["filter"]
    return None if conditions is None else filter_text(conditions)


def _payload(payload: str | None, mapping: str | None) -> dict[str, str]:
    """Return the members that were given. A mapping alone says that the payload is `mapped`."""
    if mapping is not None:
        return {"payload": payload or "mapped", "mapping": mapping}
    return {} if payload is None else {"payload": payload}


def _facts(remote: Remote, subscription: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "subscription": subscription["id"],
        "events": subscription["events"],
        "endpoint": remote.named("endpoint", subscription["endpoint_id"]),
        "tenant": remote.named("tenant", subscription["tenant_id"]),
        "payload": subscription["payload"],
        "mapping": subscription["mapping"],
        "filter": _filter_text(subscription),
        "active": subscription["active"],
        "ordered": subscription["ordered"] or None,
        "created": format_time(subscription["created_at"]),
        "updated": format_time(subscription["updated_at"]),
    }
