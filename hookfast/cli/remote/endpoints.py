"""`hookfast endpoints`: list, show, create, change and delete endpoints, and rotate secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.endpoint_credentials import credential_facts
from hookfast.cli.remote.names import endpoint_name
from hookfast.cli.remote.options import (
    DeletedEndpoint,
    EndpointArgument,
    Limit,
    OwnTenant,
    Tenant,
    Yes,
    filter_option,
    parse_object,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note, print_warnings
from hookfast.cli.remote.setting_options import SettingsOf, set_facts
from hookfast.cli.remote.times import format_time, parse_duration

app = typer.Typer()

_SHOWN_FIRST = frozenset(
    {
        *("id", "tenant_id", "mode", "url", "owner_emails", "verification", "retry_plan"),
        *("timeout_seconds", "signatures", "signature_hash", "authentication", "tls", "secrets"),
        *("state", "state_reason", "health", "created_at", "updated_at"),
        *("secret", "subscription", "warnings"),
    }
)
"""The members of an endpoint that are shown in words of their own, or not at all. The others are
its settings, which are shown if they are set."""


def parse_retry_plan(text: str) -> Any:
    """Return the name of a preset as it is, and an object parsed."""
    return parse_object(text, option="--retry-plan") if text.lstrip().startswith("{") else text


@command(app, "list")
def list_endpoints(
    remote: Remote,
    tenant: Tenant = None,
    state: Annotated[str | None, filter_option("enabled, paused or disabled.")] = None,
    health: Annotated[
        str | None,
        filter_option("healthy, failing, circuit_open, draining, paused or disabled."),
    ] = None,
    limit: Limit = 50,
) -> None:
    """List endpoints, newest first."""
    remote.print_list(
        "/endpoints",
        {"tenant_id": tenant, "state": state, "health": health},
        {
            "id": Column(value="id", priority=0),
            "health": Column(value="health", priority=0),
            "tenant": Column(value="tenant_id", priority=3, least=8, noun="tenant"),
            "url": Column(value=lambda row: row["url"] or "(polled)", priority=4, least=20),
            "reason": Column(value="state_reason", priority=2, least=12),
            "name": Column(value="description", narrow=endpoint_name, least=12),
        },
        limit=limit,
        if_empty="There are no endpoints. Create one with `hookfast endpoints create URL`.",
    )


@command(app, "show")
def show(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Show an endpoint."""
    response = remote.api.get(path_of("endpoints", endpoint_id))
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "create")
def create(
    remote: Remote,
    settings: Annotated[
        dict[str, Any],
        SettingsOf(
            form="hookfast.resources.endpoint:EndpointSettings",
            names={
                "owner_emails": "--owner",
                "rate_limit_per_second": "--rate-limit",
                "ordered": "--ordered/--unordered",
            },
            readers={"retry_plan": parse_retry_plan},
            without=("mode", "url"),
        ),
    ],
    receiver_url: Annotated[
        str | None, typer.Argument(metavar="URL", help="Where its deliveries are sent.")
    ] = None,
    poll: Annotated[
        bool, typer.Option("--poll", help="It has no URL: its consumer polls, and nothing is sent.")
    ] = False,
    tenant: OwnTenant = None,
    events: Annotated[
        list[str] | None, typer.Option(help="Event type or pattern it receives; repeatable.")
    ] = None,
    members: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Any other members as an object; - reads it."),
    ] = None,
) -> None:
    """Create an endpoint and print its secret, the only time it is shown. Its receiver first has to
    agree to get the events."""
    if (receiver_url is None) != poll:
        raise typer.BadParameter("give the URL that receives, or --poll")
    form = {} if members is None else parse_object(members, option="--members")
    given = {
        "mode": "poll" if poll else None,
        "url": receiver_url,
        "tenant_id": tenant,
        "events": events or None,
    }
    form |= settings | {name: value for name, value in given.items() if value is not None}
    response = remote.api.post("/endpoints", form)
    if remote.printed_json(response):
        return
    endpoint = response.value
    print_facts(_facts(remote, endpoint))
    print_warnings(endpoint)
    if not events:
        print_note("It receives no events yet, because it has no subscription.")
    if poll:
        print_note(f"See what waits for it with `hookfast endpoints poll {endpoint['id']}`.")
        return
    print_note("The secret is shown only once:")
    typer.echo(endpoint["secret"])


@command(app, "update")
def update(
    remote: Remote,
    endpoint_id: EndpointArgument,
    patch: Annotated[str, typer.Argument(metavar="JSON", help="A merge patch; - reads it.")],
) -> None:
    """Change an endpoint by a merge patch, e.g. '{"timeout_seconds": 10}'; null resets."""
    response = remote.api.patch(
        path_of("endpoints", endpoint_id), parse_object(patch, option="JSON")
    )
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "delete")
def delete(remote: Remote, endpoint_id: DeletedEndpoint, yes: Yes = False) -> None:
    """Delete an endpoint, its subscriptions and its secrets."""
    if not yes:
        endpoint = remote.api.get(path_of("endpoints", endpoint_id)).value
        effect = (
            f"sends to {endpoint['url']}. Its unfinished deliveries will end undelivered."
            if endpoint["mode"] == "push"
            else "is polled."
        )
        print_note(f"{endpoint['id']} {effect}")
        confirm("Delete it?")
    remote.api.delete(path_of("endpoints", endpoint_id))
    print_note(f"{endpoint_id} is deleted.")


@command(app, "rotate-secret")
def rotate_secret(
    remote: Remote,
    endpoint_id: EndpointArgument,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long the old secret still signs, up to 7d; 0s ends it at once.",
        ),
    ] = "24h",
) -> None:
    """Give an endpoint a new secret and print it, the only time it is shown."""
    seconds = int(parse_duration(overlap).total_seconds())
    response = remote.api.post(
        path_of("endpoints", endpoint_id, "rotate-secret"), {"overlap_seconds": seconds}
    )
    if remote.printed_json(response):
        return
    for secret in response.value["secrets"]:
        if secret["expires_at"] is None:
            if secret["public_key"] is not None:
                print_note(f"The new public key is {secret['public_key']}.")
        else:
            print_note(
                f"The {secret['kind']} secret of {format_time(secret['created_at'])} also signs "
                f"until {format_time(secret['expires_at'])}."
            )
    print_note("The new secret is shown only once:")
    typer.echo(response.value["secret"])


def _facts(remote: Remote, endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of an endpoint: the common members, and the others that are set."""
    signature_hash = endpoint["signature_hash"] if "hook" in endpoint["signatures"] else None
    public_keys = [one["public_key"] for one in endpoint["secrets"] if one["public_key"]]
    facts: dict[str, Any] = {
        "endpoint": endpoint["id"],
        "mode": "poll" if endpoint["mode"] == "poll" else None,
        "url": endpoint["url"],
        "tenant": remote.named("tenant", endpoint["tenant_id"]),
        "health": endpoint["health"],
        "state": endpoint["state"],
        "reason": endpoint["state_reason"],
        "owners": endpoint["owner_emails"] or None,
    }
    if endpoint["mode"] == "push":
        facts |= {
            "signatures": endpoint["signatures"],
            "signature hash": signature_hash,
            "public keys": public_keys or None,
            **set_facts({"retry_plan": endpoint["retry_plan"]}, but=()),
            "timeout": f"{float(endpoint['timeout_seconds']):g} s",
            "verification": endpoint["verification"],
            **credential_facts(endpoint),
        }
    facts |= set_facts(endpoint, but=_SHOWN_FIRST)
    facts["created"] = format_time(endpoint["created_at"])
    return facts
