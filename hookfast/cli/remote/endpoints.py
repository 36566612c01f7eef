"""`hookfast endpoints`: the URLs that receive, looked up, made, changed and deleted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_facts, show_table
from hookfast.cli.remote.times import duration, shown

app = typer.Typer()

EndpointId = Annotated[str, typer.Argument(metavar="ID")]


@command(app, "list")
def list_endpoints(
    remote: Remote,
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Of this tenant.")] = None,
    state: Annotated[str | None, typer.Option(help="enabled, paused or disabled.")] = None,
    limit: Limit = 50,
) -> None:
    """List endpoints, newest first."""
    rows = remote.rows("/endpoints", {"tenant_id": tenant, "state": state}, limit=limit)
    if rows is not None:
        show_table(
            ("id", "state", "tenant", "url", "reason"),
            [
                (
                    *(row["id"], row["state"], row["tenant_id"]),
                    *(row["url"] or "(polled)", row["state_reason"]),
                )
                for row in rows
            ],
            nothing="There is no endpoint. Make one with `hookfast endpoints create URL`.",
            wide="url",
        )


@command(app, "show")
def show(remote: Remote, endpoint_id: EndpointId) -> None:
    """Show an endpoint."""
    answer = remote.api.get(path_of("endpoints", endpoint_id))
    if remote.as_json:
        remote.print_json(answer)
    else:
        show_facts(_facts(answer.value))


@command(app, "create")
def create(
    remote: Remote,
    receiver: Annotated[
        str | None, typer.Argument(metavar="URL", help="Where it receives.")
    ] = None,
    poll: Annotated[
        bool, typer.Option("--poll", help="It has no URL: its consumer polls, and nothing is sent.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="Its owner; a tenant's key implies its own.")
    ] = None,
    events: Annotated[
        list[str] | None, typer.Option(help="Event type or pattern it gets; any number.")
    ] = None,
    owner: Annotated[
        list[str] | None, typer.Option(metavar="MAIL", help="Who gets mail about it; any number.")
    ] = None,
    retry_plan: Annotated[
        str | None, typer.Option(help="A preset's name, or an object as JSON.")
    ] = None,
    verification: Annotated[
        str | None, typer.Option(help="How it is asked first: header (default), query or none.")
    ] = None,
    members: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Any other members as an object; - reads them."),
    ] = None,
) -> None:
    """Create an endpoint and print its secret, the only time anyone sees it. Its receiver is asked
    first whether it wants the events."""
    if (receiver is None) != poll:
        raise typer.BadParameter("give the URL that receives, or --poll")
    form: dict[str, Any] = _object(members, "--members") if members is not None else {}
    given = {
        "mode": "poll" if poll else None,
        "url": receiver,
        "tenant_id": tenant,
        "events": events or None,
        "owner_emails": owner or None,
        "retry_plan": None if retry_plan is None else _plan(retry_plan),
        "verification": verification,
    }
    form.update((name, value) for name, value in given.items() if value is not None)
    answer = remote.api.post("/endpoints", form)
    if remote.as_json:
        remote.print_json(answer)
        return
    show_facts(_facts(answer.value))
    if not events:
        say("It gets no events yet; it has no subscription.")
    if poll:
        say(f"See what waits for it with `hookfast endpoints poll {answer.value['id']}`.")
        return
    say("Its secret is shown this once:")
    typer.echo(answer.value["secret"])


@command(app, "update")
def update(
    remote: Remote,
    endpoint_id: EndpointId,
    patch: Annotated[str, typer.Argument(metavar="JSON", help="A merge patch; - reads it.")],
) -> None:
    """Change an endpoint by a merge patch, e.g. '{"timeout_seconds": 10}'; null resets."""
    answer = remote.api.patch(path_of("endpoints", endpoint_id), _object(patch, "JSON"))
    if remote.as_json:
        remote.print_json(answer)
    else:
        show_facts(_facts(answer.value))


@command(app, "delete")
def delete(
    remote: Remote,
    endpoint_id: EndpointId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete an endpoint, its subscriptions and its secrets."""
    if not yes:
        endpoint = remote.api.get(path_of("endpoints", endpoint_id)).value
        fate = (
            f"sends to {endpoint['url']}. Deliveries under way end undelivered."
            if endpoint["mode"] == "push"
            else "is polled."
        )
        say(f"{endpoint['id']} {fate}")
        confirm("Delete it?")
    remote.api.delete(path_of("endpoints", endpoint_id))
    say(f"{endpoint_id} is deleted.")


def _facts(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of an endpoint: what every one has, and what of the rest is set."""
    public_keys = [one["public_key"] for one in endpoint["secrets"] if one["public_key"]]
    facts: dict[str, Any] = {
        "endpoint": endpoint["id"],
        "mode": "poll" if endpoint["mode"] == "poll" else None,
        "url": endpoint["url"],
        "tenant": endpoint["tenant_id"],
        "state": endpoint["state"],
        "because": endpoint["state_reason"],
        "owners": endpoint["owner_emails"] or None,
    }
    if endpoint["mode"] == "push":
        facts |= {
            "signatures": endpoint["signatures"],
            "public keys": public_keys or None,
            "retry plan": _as_text(endpoint["retry_plan"]),
            "timeout": f"{endpoint['timeout_seconds']:g} s",
            "verification": endpoint["verification"],
        }
    for name in (
        "description",
        "rate_limit_per_second",
        "max_in_flight",
        "headers",
        "encryption",
        "allowed_networks",
        "circuit",
        "metadata",
    ):
        if endpoint[name]:
            facts[name.replace("_", " ")] = _as_text(endpoint[name])
    facts["created"] = shown(endpoint["created_at"])
    return facts


def _as_text(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value


def _plan(text: str) -> Any:
    """A preset's name as it is, an object parsed."""
    return _object(text, "--retry-plan") if text.lstrip().startswith("{") else text


def _object(text: str, where: str) -> dict[str, Any]:
    """A JSON object. Raises typer.BadParameter."""
    try:
        value = json.loads(sys.stdin.buffer.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{where} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{where} is not a JSON object")
    return value


@command(app, "rotate-secret")
def rotate_secret(
    remote: Remote,
    endpoint_id: EndpointId,
    overlap: Annotated[
        str,
        typer.Option(metavar="TIME", help="For how long the old one signs too, up to 7d; 0s: not."),
    ] = "24h",
) -> None:
    """Give an endpoint a new secret and print it, the only time anyone sees it."""
    seconds = int(duration(overlap).total_seconds())
    answer = remote.api.post(
        path_of("endpoints", endpoint_id, "rotate-secret"), {"overlap_seconds": seconds}
    )
    if remote.as_json:
        remote.print_json(answer)
        return
    for secret in answer.value["secrets"]:
        if secret["expires_at"] is None:
            if secret["public_key"] is not None:
                say(f"Its new public key is {secret['public_key']}.")
        else:
            say(
                f"The {secret['kind']} secret of {shown(secret['created_at'])} signs too until "
                f"{shown(secret['expires_at'])}."
            )
    say("Its new secret is shown this once:")
    typer.echo(answer.value["secret"])
