"""`hookfast endpoints`: verify, pause, resume, disable, enable and recover an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import ApiResponse, path_of
from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import EndpointArgument
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import print_note, printable
from hookfast.cli.remote.times import parse_past

app = typer.Typer()

_AFTER_RESUME = {
    "open": "Its circuit is open; it is probed now.",
    "half_open": "Its circuit is half-open: one delivery probes whether it has recovered.",
    "draining": "Held deliveries are sent, slowly at first.",
}


@command(app, "verify")
def verify(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Ask an endpoint's receiver again whether it agrees to get the events."""
    response = remote.api.post(path_of("endpoints", endpoint_id, "verify"))
    if remote.printed_json(response):
        return
    if response.value["verification"] == "none":
        print_note("Its verification is none: only its URL was checked.")
    else:
        print_note(f"It agreed to {', '.join(response.value['topics'])}.")


@command(app, "pause")
def pause(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Hold an endpoint's deliveries until it is resumed."""
    _request(remote, endpoint_id, "pause")


@command(app, "resume")
def resume(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Send the deliveries of a paused endpoint again; if its circuit is open, probe it now."""
    _request(remote, endpoint_id, "resume")
    if not remote.as_json:
        health = remote.api.get(path_of("endpoints", endpoint_id, "health")).value
        if sentence := _AFTER_RESUME.get(health["circuit"]["state"]):
            typer.echo(sentence)


@command(app, "disable")
def disable(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Stop sending to an endpoint. Its events become dead letters, which can be sent later."""
    _request(remote, endpoint_id, "disable")


@command(app, "enable")
def enable(
    remote: Remote,
    endpoint_id: EndpointArgument,
    redrive: Annotated[
        bool, typer.Option("--redrive", help="Send its dead letters again, as a job.")
    ] = False,
) -> None:
    """Send to an endpoint again."""
    response = _request(remote, endpoint_id, "enable", {"redrive": True} if redrive else None)
    job = response.value.get("job")
    if job is not None and not remote.as_json:
        from hookfast.cli.remote.jobs import started_sentence

        typer.echo(started_sentence(job))


@command(app, "recover")
def recover(
    remote: Remote,
    endpoint_id: EndpointArgument,
    job: JobOptions,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Failed at this time or later: 2h, 3d, or RFC 3339.")
    ],
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Failed before this time.")
    ] = None,
) -> None:
    """Send again the deliveries of an endpoint that failed in a time range."""
    body = {"since": parse_past(since)}
    if until is not None:
        body["until"] = parse_past(until)
    act(remote, path_of("endpoints", endpoint_id, "recover"), body, verb="Resend", options=job)


def _request(
    remote: Remote, endpoint_id: str, action: str, body: Mapping[str, Any] | None = None
) -> ApiResponse:
    """Request an action on the endpoint, and print its new state."""
    response = remote.api.post(path_of("endpoints", endpoint_id, action), body)
    if not remote.printed_json(response):
        endpoint = response.value
        sentence = f"{endpoint['id']} is {endpoint['state']}"
        reason = endpoint["state_reason"]
        typer.echo(printable(f"{sentence}: {reason}" if reason else f"{sentence}."))
    return response
