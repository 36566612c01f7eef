"""`hookfast tests`: the tests that were sent to endpoints, with the request and the answer."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import Answer, Endpoint, EventType, Limit, Tenant
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import (
    Column,
    Columns,
    format_answer,
    print_facts,
    print_text,
    printable,
)
from hookfast.cli.remote.times import format_distance, format_time

app = typer.Typer()

_COLUMNS: Columns = {
    "id": Column(value="id", priority=0),
    "answer": Column(value=format_answer, priority=0),
    "event type": Column(value="event_type", least=12),
    "endpoint": Column(value="endpoint_id", least=12, noun="endpoint"),
    "sent": Column(value=lambda row: format_distance(row["started_at"]), priority=2),
    "error": Column(value="error", least=20, priority=3),
}


@command(app, "list")
def list_tests(
    remote: Remote,
    endpoint: Endpoint = None,
    event_type: EventType = None,
    answer: Answer = None,
    tenant: Tenant = None,
    limit: Limit = 50,
) -> None:
    """List the tests of the last days, newest first."""
    query = {
        "endpoint_id": endpoint,
        "event_type": event_type,
        "answer": answer,
        "tenant_id": tenant,
    }
    remote.print_list("/tests", query, _COLUMNS, limit=limit, if_empty="No test is kept.")


@command(app, "show")
def show(
    remote: Remote,
    test_id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, or the end of it."), IdOf("test")
    ],
) -> None:
    """Show a test: the whole request, and the answer."""
    response = remote.api.get(path_of("tests", test_id))
    if remote.printed_json(response):
        return
    test = response.value
    print_facts(
        {
            "test": test["id"],
            "event type": test["event_type"],
            "endpoint": remote.named("endpoint", test["endpoint_id"]),
            "tenant": remote.named("tenant", test["tenant_id"]),
            "payload": test["payload"],
            "sent": format_time(test["started_at"]),
            "result": test["result"],
            "error": test["error"],
            "duration": f"{test['duration_ms']:,.0f} ms",
        }
    )
    _print_message(">", f"{test['method']} {test['url']}", test["request_headers"])
    print_text(test["request_body"])
    if test["status_code"] is not None:
        _print_message("<", str(test["status_code"]), test["response_headers"])
        print_text(test["response_excerpt"] or "")


def _print_message(mark: str, first: str, headers: list[list[str]] | None) -> None:
    """Print the first line and the headers of what was sent (`>`) or received (`<`)."""
    typer.echo(f"\n{mark} {printable(first)}")
    for header in headers or ():
        typer.echo(f"{mark} {printable(': '.join(header))}")
    typer.echo()
