"""`hookfast deliveries wait`: lets a script go on once deliveries were attempted or delivered."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.deliveries import Ids, show_deliveries
from hookfast.cli.remote.delivery_filter import DeliveryFilter
from hookfast.cli.remote.option_groups import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say

app = typer.Typer()

_POLL_SECONDS = 0.2
_MOST = 1000


@command(app, "wait")
def wait(
    remote: Remote,
    chosen: DeliveryFilter,
    ids: Ids = None,
    awaited: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="STATUS",
            help="Wait until they have this status; default: until none is pending.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Longest time to wait.")
    ] = 30,
) -> None:
    """Wait until deliveries were attempted, or have a status. Give ids or filters.

    Exit code: 0 when they all have it, 1 when the time is up or none matches.
    """
    query = chosen.query()
    if bool(ids) == bool(query):
        raise typer.BadParameter("give ids or filters such as --event, not both")
    deadline = time.monotonic() + timeout
    while True:
        rows = _rows(remote, ids, query)
        waited_for = [row for row in rows if not _has(row, awaited)]
        if rows and not waited_for:
            break
        if time.monotonic() >= deadline:
            say(_too_late(rows, waited_for, awaited))
            raise typer.Exit(1)
        time.sleep(_POLL_SECONDS)
    if remote.as_json:
        remote.print_rows(rows)
    else:
        show_deliveries(rows, nothing="")


def _rows(remote: Remote, ids: list[str] | None, query: dict[str, Any]) -> list[dict[str, Any]]:
    if ids:
        return [remote.api.get(path_of("deliveries", one)).value for one in ids]
    pages = remote.api.pages("/deliveries", query, limit=_MOST)
    return [row for page in pages for row in page.value["data"]]


def _has(row: dict[str, Any], awaited: str | None) -> bool:
    status = str(row["status"])
    return status != "pending" if awaited is None else status == awaited


def _too_late(
    rows: list[dict[str, Any]], waited_for: list[dict[str, Any]], awaited: str | None
) -> str:
    if not rows:
        return "No delivery matches."
    kind = "still pending" if awaited is None else f"not {awaited}"
    first = waited_for[0]
    return (
        f"{len(waited_for)} of {len(rows)} {'is' if len(waited_for) == 1 else 'are'} {kind}, "
        f"such as {first['id']} ({first['status']})."
    )
