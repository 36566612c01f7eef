"""`hookfast endpoints test`: send a test event to an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.emit.event import read_data
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import EndpointArgument, MappingFile, MappingText, read_mapping
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import print_facts, print_text
from hookfast_client.call import Call

app = typer.Typer()


@command(app, "test")
def send_test(
    remote: Remote,
    endpoint_id: EndpointArgument,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")],
    subscription: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Of the endpoint; default: its oldest one to this event type."
        ),
        IdOf("subscription"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: print the body that would be sent.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="The event's data; - is standard input; default: a sample."
        ),
    ] = None,
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
) -> None:
    """Send a test event to an endpoint now and show the answer. Exit code: 1 when it failed.

    The event has sample data of its type, or --data. `hookfast tests show` shows the whole request
    for some days. With --dry-run, a --mapping that is not saved yet can be tried.
    """
    form = {
        "type": event_type,
        "subscription_id": subscription,
        "dry_run": dry_run,
        "mapping": read_mapping(mapping, mapping_file),
    }
    body = json.dumps({name: value for name, value in form.items() if value is not None}).encode()
    if data is not None:
        body = body[:-1] + b', "data": ' + read_data(data) + b"}"  # with its exact numbers
    path = path_of("endpoints", endpoint_id, "test")
    response = remote.api.send(Call(method="POST", path=path, body=body))
    if remote.printed_json(response):
        pass
    elif dry_run:
        print_text(response.value["body"], indent=0)
    else:
        print_facts(test_facts(response.value))
    if not dry_run and not response.value["succeeded"]:
        raise typer.Exit(1)


def test_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of the result of a test."""
    return {
        "result": result["result"],
        "status": None if result["status_code"] is None else str(result["status_code"]),
        "error": result["error"],
        "duration": f"{result['duration_ms']:.0f} ms",
        "response": result["response_excerpt"] or None,
        "message id": result["message_id"],
    }
