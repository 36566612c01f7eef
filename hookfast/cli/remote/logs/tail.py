"""`hookfast logs`: the newest attempts of a running service, and with `--follow` every new one.

The API gives the attempts in the order in which they were recorded, so a slow attempt comes late
and is not missed. After a lost connection the tail continues where it was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from hookfast.cli.remote.api import (
    MAX_PAGE,
    Api,
    ApiProblem,
    NotHookfast,
    Query,
    Unreachable,
    pause_after,
)
from hookfast.cli.remote.names import short_id
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Row, format_answer, print_note, printable, truncate
from hookfast.cli.remote.times import format_distance
from hookfast.strict_json.text import to_text

_EVERY_SECONDS = 1.0
_MOST_REQUESTS, _SCANNED = 50, 2_000
"""The most requests for the newest attempts, and how many attempts each of them scans."""
_WHOLE_IDS_FROM = 140
"""The least width of a terminal, in columns, at which ids are not shortened."""
_LEAST_TYPE = 10


def print_logs(remote: Remote, query: Query, *, limit: int, follow: bool) -> None:
    """Print the newest `limit` attempts, oldest first; then new ones until Ctrl-C, if `follow`."""
    rows, tail_cursor, is_complete = _newest(remote.api, query, limit=limit)
    output = _Output(as_json=remote.as_json)
    for row in rows:
        output.attempt(row)
    if not is_complete:
        searched = _MOST_REQUESTS * _SCANNED
        print_note(f"Only the newest {searched:,} were searched; --until searches older ones.")
    if not follow:
        if not rows:
            print_note("No attempt matches.")
        return
    print_note(f"Following {remote.api.url}. Ctrl-C stops it.")
    seen = {row["id"] for row in rows}
    try:
        for row in _tail(remote.api, query, tail_cursor):
            if row["id"] not in seen:  # recorded while the newest were read
                output.attempt(row)
    except KeyboardInterrupt:
        return


def _newest(api: Api, query: Query, *, limit: int) -> tuple[list[dict[str, Any]], str, bool]:
    """Return the newest attempts that match, oldest first, the cursor of the tail after them, and
    whether `limit` of them or all were found."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    tail_cursor = ""
    for _ in range(_MOST_REQUESTS):
        wanted = min(limit - len(rows), MAX_PAGE)
        page = api.get("/attempts", {**query, "limit": wanted, "cursor": cursor}).value
        rows += page["data"]
        tail_cursor = tail_cursor or page["tail_cursor"]
        cursor = page["next_cursor"]
        if cursor is None or len(rows) >= limit:
            return rows[::-1], tail_cursor, True
    return rows[::-1], tail_cursor, False


def _tail(api: Api, query: Query, cursor: str) -> Iterator[dict[str, Any]]:
    """Yield the attempts that are recorded after this cursor, for ever. Raises ApiProblem when the
    API denies access."""
    failures = 0
    while True:
        try:
            page = api.get("/attempts", {**query, "limit": MAX_PAGE, "after": cursor}).value
        except (Unreachable, NotHookfast, ApiProblem) as error:
            pause = pause_after(error, failures=failures)
            why = printable(error.message).rstrip(".")
            print_note(f"No connection: {why}. Trying again in {pause:.1f} s.")
            failures += 1
            time.sleep(pause)
            continue
        if failures:
            print_note("Connected again, continuing after the last attempt.")
        failures = 0
        yield from page["data"]
        cursor = page["tail_cursor"]
        if page["done"]:
            time.sleep(_EVERY_SECONDS)


class _Output:
    """Prints attempts: a line each that fits a terminal, or whole ids in a pipe, or JSON lines."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        is_narrow = self._console.is_terminal and self._console.width < _WHOLE_IDS_FROM
        self._width = self._console.width if is_narrow else None

    def attempt(self, row: Row) -> None:
        """Print an attempt."""
        if self._as_json:
            sys.stdout.write(f"{to_text(row, layout='spaced')}\n")
            sys.stdout.flush()
            return
        self._console.print(attempt_line(row, width=self._width))


def attempt_line(row: Row, *, width: int | None) -> Text:
    """Return an attempt as one line: when it ended, its delivery, event type, endpoint, number and
    answer, and what comes next. With a `width`, ids are shortened, and the event type if need
    be."""
    ended = datetime.fromisoformat(row["started_at"]) + timedelta(
        milliseconds=float(row["duration_ms"])
    )
    is_today = ended.astimezone().date() == datetime.now().astimezone().date()
    time_text = f"{ended.astimezone():{'%H:%M:%S' if is_today else '%m-%d %H:%M:%S'}}"
    delivery, endpoint = row["delivery_id"], row["endpoint_id"]
    if width is not None:
        delivery, endpoint = short_id(delivery), short_id(endpoint)
    succeeded = row["result"] == "success"
    before = Text.assemble((f"{time_text} ", "dim"), f"{printable(delivery)} ")
    after = Text.assemble(
        (f" {printable(endpoint)}", "dim"),
        f" #{row['number']} ",
        (printable(format_answer(row) or ""), "green" if succeeded else "red"),
        f" → {_following(row, brief=width is not None)}",
    )
    event_type = printable(row["event_type"])
    if width is not None:
        room = width - before.cell_len - after.cell_len
        event_type = truncate(event_type, max(room, _LEAST_TYPE)) or ""
    return Text.assemble(before, event_type, after)


def _following(row: Row, *, brief: bool) -> str:
    """Return what comes after an attempt: the next one, or the delivery's present status."""
    if row["number"] < row["attempt_count"]:
        return f"#{row['number'] + 1}"
    if row["delivery_status"] in ("pending", "retrying") and row["next_attempt_at"] is not None:
        return format_distance(row["next_attempt_at"])
    status, reason = row["delivery_status"], row["delivery_reason"]
    return printable(status if brief or reason is None else f"{status} ({reason})")
