"""`hookfast endpoints poll`: look at what an endpoint's consumer gets, or be that consumer."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.client import Answer, Api, Query, Refused, Unreachable, path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.endpoints import EndpointId
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import INTERRUPTED, plain, say
from hookfast.cli.remote.times import shown

app = typer.Typer()

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_WAIT = 25  # seconds: below the patience of whatever proxy is on the way


@command(app, "poll")
def poll(
    remote: Remote,
    endpoint_id: EndpointId,
    cursor: Annotated[
        str | None,
        typer.Option(help="Where to begin: a next_cursor, start or end; default: acknowledged."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    ack: Annotated[
        bool, typer.Option("--ack", help="Acknowledge what was printed: it does not come again.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Events of one page.")] = 50,
) -> None:
    """Print the events that wait for an endpoint's consumer. Nothing is acknowledged unless --ack
    says so. With --json a line for each page. --follow outlasts a restart of the service."""
    path = path_of("endpoints", endpoint_id, "poll")
    pages = _pages(remote, path, cursor=cursor, limit=limit, follow=follow, ack=ack)
    try:
        for page in pages:
            _tell_gap(page.value["gap"])
            if remote.as_json:
                remote.print_json(page)
                continue
            for item in page.value["data"]:
                typer.echo(_line(item))
            if not page.value["data"]:
                say("Nothing waits.")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _pages(
    remote: Remote, path: str, *, cursor: str | None, limit: int, follow: bool, ack: bool
) -> Iterator[Answer]:
    """The pages with something in them, or one without where nothing waits. A page is
    acknowledged when the next one is asked for: once it was printed."""
    patience = _Patience(remote.api)
    mode, wait, shown_any = "none", 0, False
    while True:
        query: Mapping[str, str | int | None] = {
            "cursor": cursor,
            "limit": limit,
            "wait": wait,
            "ack": mode,
        }
        page = patience.get(path, query) if follow else remote.api.get(path, query)
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
        wait = _WAIT if follow else 0
    if ack:
        # what comes now was not printed, and is not acknowledged by being asked for
        remote.api.get(path, {"cursor": cursor, "limit": 1, "ack": "forward"})


class _Patience:
    """Asks until there is an answer, and says what keeps it waiting."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._was_there = False

    def get(self, path: str, query: Query) -> Answer:
        """An answer that is no passing refusal. To ask again is harmless: the same cursor gives the
        same page, and acknowledges the same. Raises Refused, and Unreachable for a service that
        was never there: then the URL is more likely wrong than the service away."""
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self._api.get(path, query)
            except Unreachable as error:
                if not self._was_there:
                    raise
                why, asked_at_least = error.message, 0
            except Refused as error:
                if not error.for_now:
                    raise
                why, asked_at_least = error.message, error.retry_after or 0
            else:
                self._was_there = True
                return answer
            # a jitter: those who lost the same service should not come back all at once
            wait = max(asked_at_least, pause * random.uniform(0.5, 1.0))  # noqa: S311
            say(f"{plain(why)} Trying again in {wait:.1f} s.")
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _line(item: Mapping[str, Any]) -> str:
    delivery = item["delivery"]
    status = "" if delivery is None else f"  {delivery['status']} after {delivery['attempts']}"
    return plain(f"{shown(item['created_at'])}  {item['type']}  {item['message_id']}{status}")


def _tell_gap(gap: Mapping[str, Any] | None) -> None:
    if gap is not None:
        why = "are no longer kept" if gap["reason"] == "expired" else "the database was restored"
        say(f"A gap: events from {gap['since']} to {gap['until']} may be missing; {why}.")
