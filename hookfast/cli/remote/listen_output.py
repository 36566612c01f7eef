"""What `listen` shows: a line per event, and sentences about the connection; or JSON lines."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from hookfast.cli.remote.listen_forward import Outcome
from hookfast.cli.remote.listen_stream import Connected, Lost, Message
from hookfast.cli.remote.screen import counted, plain, say
from hookfast.cli.remote.times import shown

if TYPE_CHECKING:
    from hookfast.cli.remote.listen import Tally


class Show:
    """Events go to standard output, all else to standard error; with `as_json` every line of
    standard output is one object, whose `what` says what it tells of."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False, soft_wrap=True)
        self._was_lost = False

    def listening(self, url: str, forward_to: str | None, *, secret: str | None) -> None:
        """That it begins, and what verifies the requests."""
        if self._as_json:
            made = {} if secret is None else {"secret": secret}
            self._line("listening", url=url, forward_to=forward_to, **made)
            return
        if forward_to is None:
            say(f"Listening to {url}. Ctrl-C ends it.")
            return
        say(f"Forwarding from {url} to {forward_to}. Ctrl-C ends it.")
        if secret is not None:
            say(f"Requests are signed with {secret}")
            say("A new one each time; HOOKFAST_LISTEN_SECRET sets one of your own.")

    def connection(self, happening: Connected | Lost) -> None:
        """That there is a connection, or none any more."""
        if self._as_json:
            if isinstance(happening, Lost):
                self._line("lost", why=happening.why, retry_in_seconds=round(happening.pause, 2))
            else:
                self._line("connected")
        elif isinstance(happening, Lost):
            self._was_lost = True
            say(f"No connection: {plain(happening.why)}. Trying again in {happening.pause:.1f} s.")
        elif self._was_lost:
            self._was_lost = False
            say("Connected again, and going on where it was.")

    def gap(self, message: Message) -> None:
        """That events may be missing."""
        data = message.data
        if self._as_json:
            self._line("gap", cursor=message.cursor, **data)
            return
        since, until = shown(data["from"]), shown(data["to"])
        if data["reason"] == "restored":
            say(
                f"The service was restored from a copy of before {since}: events from about then "
                "on may come again, or be missing."
            )
        else:
            say(f"A gap: what was emitted between {since} and {until} is no longer kept.")

    def event(self, message: Message, outcome: Outcome | None) -> None:
        """An event that is done with."""
        event = message.data
        if self._as_json:
            facts = {name: event[name] for name in ("id", "type", "created_at", "tenant_id")}
            self._line("event", **facts, cursor=message.cursor, **_facts(outcome))
            return
        at = datetime.fromisoformat(event["created_at"]).astimezone()
        line = Text.assemble(
            (f"{at:%H:%M:%S}  ", "dim"), f"{plain(event['type'])}  ", (plain(event["id"]), "dim")
        )
        if outcome is not None:
            line.append("  → ")
            word = str(outcome.status) if outcome.error is None else outcome.error
            line.append(plain(word), style="green" if outcome.accepted else "red")
            line.append(f"  {outcome.milliseconds:,.0f} ms", style="dim")
        if event["deliver_at"] is not None:
            line.append(f"  (to be delivered {shown(event['deliver_at'])})", style="dim")
        self._console.print(line)

    def again(self, message: Message, outcome: Outcome, *, pause: float) -> None:
        """That an event is sent again, and why."""
        event = message.data
        if self._as_json:
            facts = {"id": event["id"], "retry_in_seconds": pause}
            self._line("again", **facts, **_facts(outcome))
            return
        why = outcome.error or f"the answer was {outcome.status}"
        say(f"{plain(event['id'])} waits: {plain(why)}. Trying again in {pause:g} s.")

    def sum(self, tally: Tally, *, resume: Path | None) -> None:
        """What came of everything, and how to go on."""
        if self._as_json:
            self._line(
                "sum",
                events=tally.events,
                accepted=tally.accepted,
                failed=tally.failed,
                gaps=tally.gaps,
                cursor=tally.cursor,
            )
            return
        text = counted(tally.events, "event")
        if tally.accepted or tally.failed:
            text += f": {tally.accepted:,} accepted, {tally.failed:,} not"
        if tally.gaps:
            text += f"; {counted(tally.gaps, 'gap')}"
        say(f"{text}.")
        if resume is None and tally.cursor is not None:
            say(f"Go on behind the last one with --since {tally.cursor}")

    def _line(self, what: str, **facts: Any) -> None:
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
