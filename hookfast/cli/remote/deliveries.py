"""`hookfast deliveries`: list them, wait for them, and act on one or many."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.api import ApiProblem, path_of
from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.delivery_summary import answer_lines, next_step
from hookfast.cli.remote.options import DeliveryArgument, DeliveryFilter, Everything, Ids, Limit
from hookfast.cli.remote.remote import Remote, print_page
from hookfast.cli.remote.screen import (
    Column,
    Columns,
    format_answer,
    print_facts,
    print_note,
    print_text,
    printable,
    truncate,
)
from hookfast.cli.remote.times import format_distance, format_time, format_time_if_set
from hookfast.deliveries.actions import ACTIONS, ActionSpec

app = typer.Typer()

DELIVERY_COLUMNS: Columns = {
    "id": Column(value="id", priority=0),
    "status": Column(value="status", priority=0),
    "event type": Column(value="event_type", least=12),
    "endpoint": Column(value="endpoint_id", least=12, noun="endpoint"),
    "attempts": Column(value="attempt_count", priority=6),
    "last answer": Column(value=lambda row: format_answer(row["last_answer"]), priority=2),
    "next attempt": Column(value=lambda row: _next_attempt(row), priority=5),
    "created": Column(value=lambda row: format_distance(row["created_at"]), priority=3),
    "reason": Column(value=lambda row: truncate(row["reason"]), priority=4, least=12),
}


def _next_attempt(row: Mapping[str, Any]) -> str:
    """Return when a delivery is attempted next; `queued` if it waits behind another."""
    return "queued" if row["place"] == "queued" else format_distance(row["next_attempt_at"])


_ATTEMPT_COLUMNS: Columns = {
    "#": Column(value="number", priority=0),
    "started": Column(
        value=lambda row: format_time(row["started_at"]),
        narrow=lambda row: f"{row['started_at'][11:19]}Z",
    ),
    "trigger": Column(value="trigger", priority=3),
    "duration": Column(value=lambda row: f"{row['duration_ms']:,.0f} ms", priority=2),
    "result": Column(value="result", priority=4),
    "status": lambda row: None if row["status_code"] is None else str(row["status_code"]),
    "error": Column(value="error", least=30, wraps=True),
}
_POLL_SECONDS = 0.2
_MAX_AWAITED = 1000


@command(app, "list")
def list_deliveries(remote: Remote, selected: DeliveryFilter, limit: Limit = 50) -> None:
    """List deliveries, newest first."""
    remote.print_list(
        "/deliveries",
        selected.query(),
        DELIVERY_COLUMNS,
        limit=limit,
        if_empty="No delivery matches.",
    )


@command(app, "show")
def show(
    remote: Remote,
    delivery_id: DeliveryArgument,
    number: Annotated[
        int | None,
        number_option(
            "--attempt",
            kind=int,
            least=1,
            help="Show the answer to this attempt, not the newest.",
        ),
    ] = None,
    body: Annotated[
        bool, typer.Option("--body", help="Show all that was kept of the answer's body.")
    ] = False,
    headers: Annotated[
        bool,
        typer.Option(
            "--headers", help="Show URL and headers of each attempt too, or of --attempt."
        ),
    ] = False,
) -> None:
    """Show a delivery: why it has its status and what comes next, every attempt, and the answer to
    the newest."""
    response = remote.api.get(path_of("deliveries", delivery_id))
    if remote.printed_json(response):
        return
    delivery = response.value
    attempts = delivery["attempts"]
    chosen = [one for one in attempts if number in (None, one["number"])]
    if number is not None and not chosen:
        kept = ", ".join(str(one["number"]) for one in attempts) or "none"
        raise typer.BadParameter(f"there is no attempt {number}; kept: {kept}")
    for line in next_step(delivery):
        print_text(line, indent=0)
    print_facts(
        {
            "delivery": delivery["id"],
            "event": f"{delivery['event_id']} ({delivery['event_type']})",
            "endpoint": remote.named("endpoint", delivery["endpoint_id"]),
            "subscription": remote.named("subscription", delivery["subscription_id"]),
            "tenant": remote.named("tenant", delivery["tenant_id"]),
            "status": delivery["status"],
            "reason": delivery["reason"],
            "held since": format_time_if_set(delivery["held_since"]),
            "next check": format_time_if_set(delivery["next_check_at"]),
            "attempts": f"{delivery['attempt_count']}, {delivery['retry_count']} of them retries",
            "next attempt": format_time_if_set(delivery["next_attempt_at"]),
            "deliver at": format_time_if_set(delivery["deliver_at"]),
            "ordering key": delivery["ordering_key"],
            "waits behind": delivery["waits_behind"],
            "created": format_time(delivery["created_at"]),
            "finished": format_time_if_set(delivery["finished_at"]),
            "workflow": delivery["workflow"]["url"] or delivery["workflow"]["id"],
        }
    )
    remote.print_table(attempts, _ATTEMPT_COLUMNS, if_empty="No attempt was made yet.")
    if chosen:
        _print_answer(chosen[-1], whole=body)
    if headers:
        for attempt in chosen:
            _print_evidence(attempt)


def _print_answer(attempt: dict[str, Any], *, whole: bool) -> None:
    """Print what the receiver answered, by default only the start of its body."""
    heading, text, is_cut = answer_lines(attempt, whole=whole)
    if not heading:
        return
    typer.echo("")
    print_text(heading, indent=0)
    if text:
        print_text(text)
    if is_cut:
        print_note("--body shows all that was kept of it.")


def _print_evidence(attempt: dict[str, Any]) -> None:
    """Print what an attempt sent (`>`) and received (`<`)."""
    if attempt["url"] is None:
        print_note(f"Attempt {attempt['number']}: its URL and headers were not kept.")
        return
    typer.echo(f"\nAttempt {attempt['number']}\n> POST {printable(attempt['url'])}")
    for mark, name in ((">", "request_headers"), ("<", "response_headers")):
        for header in attempt[name] or ():
            typer.echo(f"{mark} {printable(': '.join(header))}")


def _add_action(action: ActionSpec) -> None:
    """Add the command that requests an action for deliveries by id, or for all that match."""

    def request(
        remote: Remote,
        selected: DeliveryFilter,
        job: JobOptions,
        ids: Ids = None,
        everything: Everything = False,
    ) -> None:
        filters = selected.members()
        if ids:
            if filters or everything or job.dry_run:
                raise typer.BadParameter("give ids or filters, not both")
            _request_each(remote, action.name, ids)
            return
        if not filters and not everything:
            raise typer.BadParameter("give ids, filters such as --status dead, or --all")
        body = {"action": action.name, "filter": filters, "all": everything}
        act(remote, "/deliveries/actions", body, verb=action.label, options=job)

    help_text = f"{action.title}, or many. {action.effect} Give ids, or filters, or --all."
    command(app, action.name, help=help_text)(request)


for _action in ACTIONS.values():
    _add_action(_action)


@command(app, "wait")
def wait(
    remote: Remote,
    selected: DeliveryFilter,
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
        float,
        number_option(kind=float, least=0, metavar="SECONDS", help="Maximum time to wait."),
    ] = 30,
) -> None:
    """Wait until deliveries were attempted, or have a status. Give ids or filters.

    Exit code: 0 when they all have it, 1 when the time is up or none matches.
    """
    query = selected.query()
    if bool(ids) == bool(query):
        raise typer.BadParameter("give ids or filters such as --event, not both")
    deadline = time.monotonic() + timeout
    while True:
        rows = _read(remote, ids, query)
        others = [row for row in rows if not _has_status(row, awaited)]
        if rows and not others:
            break
        if time.monotonic() >= deadline:
            print_note(_timeout_note(rows, others, awaited))
            raise typer.Exit(1)
        time.sleep(_POLL_SECONDS)
    if remote.as_json:
        print_page(rows)
    else:
        remote.print_table(rows, DELIVERY_COLUMNS, if_empty="")


def _request_each(remote: Remote, action: str, ids: list[str]) -> None:
    """Send one request per id. A problem with one delivery is printed, and the others still get
    their request."""
    failed = False
    for delivery_id in ids:
        try:
            response = remote.api.post(path_of("deliveries", delivery_id, action))
        except ApiProblem as problem:
            if problem.problem.status in (401, 403):  # the key will not work for the others either
                raise
            failed = True
            print_note(f"{printable(delivery_id)}: {problem.message}")
            continue
        if not remote.printed_json(response):
            typer.echo(f"{response.value['id']}: {response.value['action']} requested.")
    if failed:
        raise typer.Exit(1)


def _read(remote: Remote, ids: list[str] | None, query: dict[str, Any]) -> list[dict[str, Any]]:
    if ids:
        return [remote.api.get(path_of("deliveries", one)).value for one in ids]
    pages = remote.api.pages("/deliveries", query, limit=_MAX_AWAITED)
    return [row for page in pages for row in page.value["data"]]


def _has_status(row: dict[str, Any], wanted: str | None) -> bool:
    status = str(row["status"])
    return status != "pending" if wanted is None else status == wanted


def _timeout_note(
    rows: list[dict[str, Any]], others: list[dict[str, Any]], wanted: str | None
) -> str:
    if not rows:
        return "No delivery matches."
    kind = "still pending" if wanted is None else f"not {wanted}"
    first = others[0]
    return (
        f"{len(others)} of {len(rows)} {'is' if len(others) == 1 else 'are'} {kind}, "
        f"such as {first['id']} ({first['status']})."
    )
