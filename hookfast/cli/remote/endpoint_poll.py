"""`hookfast endpoints poll`: show what an endpoint's consumer gets, or be that consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.api import (
    Api,
    ApiProblem,
    ApiResponse,
    Query,
    Unreachable,
    path_of,
    pause_after,
)
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import EndpointArgument
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import INTERRUPTED, print_note, printable
from hookfast.cli.remote.times import format_time

app = typer.Typer()

_WAIT_SECONDS = 25  # shorter than the timeouts of proxies on the way


@command(app, "poll")
def poll(
    remote: Remote,
    endpoint_id: EndpointArgument,
    cursor: Annotated[
        str | None,
        typer.Option(help="Where to begin: a next_cursor, start or end; default: acknowledged."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    ack: Annotated[
        bool, typer.Option("--ack", help="Acknowledge printed events, which are not sent again.")
    ] = False,
    limit: Annotated[
        int, number_option(kind=int, least=1, most=200, help="Events of one page.")
    ] = 50,
) -> None:
    """Print the events that wait for an endpoint's consumer. They stay unacknowledged without
    --ack. With --json, prints a line for each page. --follow survives a restart of the service."""
    path = path_of("endpoints", endpoint_id, "poll")
    pages = _pages(remote, path, cursor=cursor, limit=limit, follow=follow, ack=ack)
    try:
        for page in pages:
            _print_gap(page.value["gap"])
            if remote.printed_json(page):
                continue
            for item in page.value["data"]:
                typer.echo(_line(item))
            if not page.value["data"]:
                print_note("No events wait.")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _pages(
    remote: Remote, path: str, *, cursor: str | None, limit: int, follow: bool, ack: bool
) -> Iterator[ApiResponse]:
    """Yield the pages that have events, or one empty page if no events wait. The request for the
    next page acknowledges a page, so only printed events are acknowledged."""
    client = _PatientClient(remote.api)
    mode, wait, shown_any = "none", 0, False
    while True:
        query: Mapping[str, str | int | None] = {
            "cursor": cursor,
            "limit": limit,
            "wait": wait,
            "ack": mode,
        }
        page = client.get(path, query) if follow else remote.api.get(path, query)
        found = page.value
        last = found["done"] and not follow
        if found["data"] or found["gap"] or (last and not shown_any):
            shown_any = True
            yield page
        cursor = found["next_cursor"]
        if ack:
            mode = "forward"
        if last:
            break
        wait = _WAIT_SECONDS if follow else 0
    if ack:
        # this request acknowledges the last page; the events it returns are not printed, and a
        # request does not acknowledge its own
        remote.api.get(path, {"cursor": cursor, "limit": 1, "ack": "forward"})


class _PatientClient:
    """A client that repeats a request until it succeeds, and prints why it waits."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._answered_before = False

    def get(self, path: str, query: Query) -> ApiResponse:
        """GET until there is a response. Repeating is harmless: the same cursor gives and
        acknowledges the same page. Raises ApiProblem, unless it is temporary, and Unreachable if
        the service never answered: then the URL is more likely wrong than the service away."""
        failures = 0
        while True:
            try:
                response = self._api.get(path, query)
            except (Unreachable, ApiProblem) as error:
                if isinstance(error, Unreachable) and not self._answered_before:
                    raise
                pause = pause_after(error, failures=failures)
                failures += 1
                print_note(f"{printable(error.message)} Trying again in {pause:.1f} s.")
                time.sleep(pause)
            else:
                self._answered_before = True
                return response


def _line(item: Mapping[str, Any]) -> str:
    delivery = item["delivery"]
    status = "" if delivery is None else f"  {delivery['status']} after {delivery['attempts']}"
    created = format_time(item["created_at"])
    return printable(f"{created}  {item['type']}  {item['message_id']}{status}")


def _print_gap(gap: Mapping[str, Any] | None) -> None:
    if gap is not None:
        why = (
            "they are no longer kept" if gap["reason"] == "expired" else "the database was restored"
        )
        print_note(f"A gap: events from {gap['since']} to {gap['until']} may be missing; {why}.")
