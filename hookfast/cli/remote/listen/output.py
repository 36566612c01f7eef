"""The output of `listen`: a line per event and notes about the connection, or JSON lines."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from hookfast.cli.remote.listen.forward import Outcome
from hookfast.cli.remote.listen.stream import Connected, Lost, Message
from hookfast.cli.remote.screen import print_note, printable
from hookfast.cli.remote.times import format_time
from hookfast.plural import pluralize


@dataclass(slots=True)
class Totals:
    """How many events there were by result, and the cursor of the last finished one."""

    events: int = 0
    accepted: int = 0
    failed: int = 0
    gaps: int = 0
    cursor: str | None = None


class ListenOutput:
    """Prints events on standard output and everything else on standard error. With `as_json`, all
    of it is on standard output, one object per line, whose `what` names its kind."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._was_lost = False

    def listening(self, url: str, forward_to: str | None, *, secret: str | None) -> None:
        """Print where events come from and go to, and the secret if it was generated."""
        if self._as_json:
            generated = {} if secret is None else {"secret": secret}
            self._print_json("listening", url=url, forward_to=forward_to, **generated)
            return
        if forward_to is None:
            print_note(f"Listening to {url}. Ctrl-C stops it.")
            return
        print_note(f"Forwarding from {url} to {forward_to}. Ctrl-C stops it.")
        if secret is not None:
            print_note(f"Requests are signed with {secret}")
            print_note("The secret is new each time; HOOKFAST_LISTEN_SECRET sets your own.")

    def connection(self, change: Connected | Lost) -> None:
        """Print that the connection was lost or made again."""
        if self._as_json:
            if isinstance(change, Lost):
                self._print_json("lost", why=change.why, retry_in_seconds=round(change.pause, 2))
            else:
                self._print_json("connected")
        elif isinstance(change, Lost):
            self._was_lost = True
            print_note(
                f"No connection: {printable(change.why)}. Trying again in {change.pause:.1f} s."
            )
        elif self._was_lost:
            self._was_lost = False
            print_note("Connected again, continuing after the last event.")

    def gap(self, message: Message) -> None:
        """Print that events may be missing, and why."""
        data = message.data
        if self._as_json:
            self._print_json("gap", cursor=message.cursor, **data)
            return
        since, until = format_time(data["from"]), format_time(data["to"])
        if data["reason"] == "restored":
            print_note(
                f"The service was restored from a backup of before {since}: events from about that "
                "time on may come again, or be missing."
            )
        else:
            print_note(f"A gap: events emitted between {since} and {until} are no longer kept.")

    def event(self, message: Message, outcome: Outcome | None) -> None:
        """Print an event, and the outcome if it was forwarded."""
        event = message.data
        if self._as_json:
            facts = {name: event[name] for name in ("id", "type", "created_at", "tenant_id")}
            self._print_json("event", **facts, cursor=message.cursor, **_facts(outcome))
            return
        at = datetime.fromisoformat(event["created_at"]).astimezone()
        line = Text.assemble(
            (f"{at:%H:%M:%S}  ", "dim"),
            f"{printable(event['type'])}  ",
            (printable(event["id"]), "dim"),
        )
        if outcome is not None:
            line.append("  → ")
            result = str(outcome.status) if outcome.error is None else outcome.error
            line.append(printable(result), style="green" if outcome.accepted else "red")
            line.append(f"  {outcome.milliseconds:,.0f} ms", style="dim")
        if event["deliver_at"] is not None:
            line.append(f"  (deliver at {format_time(event['deliver_at'])})", style="dim")
        self._console.print(line)

    def retry(self, message: Message, outcome: Outcome, *, pause: float) -> None:
        """Print that an event will be sent again in `pause` seconds, and why."""
        event = message.data
        if self._as_json:
            facts = {"id": event["id"], "retry_in_seconds": pause}
            self._print_json("again", **facts, **_facts(outcome))
            return
        why = outcome.error or f"the response was {outcome.status}"
        print_note(
            f"{printable(event['id'])} waits: {printable(why)}. Trying again in {pause:g} s."
        )

    def totals(self, totals: Totals, *, resume: Path | None) -> None:
        """Print the totals, and how to continue."""
        if self._as_json:
            self._print_json(
                "sum",
                events=totals.events,
                accepted=totals.accepted,
                failed=totals.failed,
                gaps=totals.gaps,
                cursor=totals.cursor,
            )
            return
        text = pluralize(totals.events, "event")
        if totals.accepted or totals.failed:
            text += f": {totals.accepted:,} accepted, {totals.failed:,} failed"
        if totals.gaps:
            text += f"; {pluralize(totals.gaps, 'gap')}"
        print_note(f"{text}.")
        if resume is None and totals.cursor is not None:
            print_note(f"Continue after the last event with --since {totals.cursor}")

    def _print_json(self, what: str, **facts: Any) -> None:
        sys.stdout.write(f"{json.dumps({'what': what, **facts}, ensure_ascii=False)}\n")
        sys.stdout.flush()


def _facts(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    return {
        "status": outcome.status,
        "error": outcome.error,
        "duration_ms": round(outcome.milliseconds, 1),
    }
