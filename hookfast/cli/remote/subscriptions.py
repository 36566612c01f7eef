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
from hookfast.cli.remote.setting_options import SettingsOf, set_facts
from hookfast.cli.remote.times import format_distance, format_time
from hookfast.events.filter import filter_text
from hookfast.plural import pluralize

app = typer.Typer()

Filter = Annotated[
    str | None,
    typer.Option(
        metavar="JSON|@FILE",
        help="Only events whose data match: '{\"amount\": {\"$gte\": 100}}'. '{}' removes it.",
    ),
]

Settings = Annotated[
    dict[str, Any],
    SettingsOf(
        form="hookfast.resources.subscription:SubscriptionSettings",
        names={"active": "--active/--inactive", "ordered": "--ordered/--unordered"},
        without=("events", "mapping", "filter"),
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
    settings: Settings,
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
    filter: Filter = None,
) -> None:
    """Subscribe an endpoint to event types. Its receiver first has to agree to new ones."""
    form = {"endpoint_id": endpoint_id, "events": events}
    form |= _given(settings, read_mapping(mapping, mapping_file), filter)
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
    settings: Settings,
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Replaces its event types; repeatable."),
    ] = None,
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
    filter: Filter = None,
) -> None:
    """Change a subscription's event types, payload, filter or order, or switch it on or off."""
    patch = _given(settings, read_mapping(mapping, mapping_file), filter)
    if events:
        patch["events"] = events
    if not patch:
        raise typer.BadParameter("give at least one option; --help shows them")
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


def _given(
    settings: Mapping[str, Any], mapping: str | None, conditions: str | None
) -> dict[str, Any]:
    """Return the members that were given. A mapping alone says that the payload is `mapped`."""
    given = dict(settings)
    if mapping is not None:
        given = {"payload": "mapped"} | given | {"mapping": mapping}
    if conditions is not None:
        given["filter"] = parse_object(conditions, option="--filter")
    return given


_SHOWN_FIRST = frozenset(
    {
        *("id", "endpoint_id", "tenant_id", "events", "payload", "mapping", "filter", "active"),
        *("created_at", "updated_at", "warnings"),
    }
)
"""The members of a subscription that are not merely shown if they are set."""


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
        **set_facts(subscription, but=_SHOWN_FIRST),
        "created": format_time(subscription["created_at"]),
        "updated": format_time(subscription["updated_at"]),
    }
