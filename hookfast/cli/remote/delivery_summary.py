"""What `hookfast deliveries show` says of a delivery in sentences, and of an answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from hookfast.cli.remote.screen import printable, printable_lines
from hookfast.cli.remote.times import format_time
from hookfast.deliveries.outcome import reason_text
from hookfast.plural import pluralize

_SHOWN_LINES, _SHOWN_CHARACTERS = 12, 800


def next_step(delivery: Mapping[str, Any]) -> list[str]:
    """Return why a delivery has its status, and what comes next, as lines."""
    lines = [_why(delivery)]
    if delivery["attempts"] and delivery["status"] != "delivered":
        lines.append(f"Last attempt: {answer_summary(delivery['attempts'][-1])}.")
    if command := _command(delivery):
        lines.append(command)
    return lines


def answer_summary(attempt: Mapping[str, Any]) -> str:
    """Return what an attempt got, in short: `503 Service Unavailable in 12 ms`."""
    code = attempt["status_code"]
    got = attempt["result"] if code is None else status_text(code)
    return f"{got} in {attempt['duration_ms']:,.0f} ms"


def status_text(code: int) -> str:
    """Return a status code with its phrase, if it is a registered one: `404 Not Found`."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def answer_lines(attempt: Mapping[str, Any], *, whole: bool) -> tuple[str, str, bool]:
    """Return the heading of an attempt's answer, its body, and whether that was cut. Without
    `whole`, only the start of the body. Everything is empty if there was no answer."""
    if attempt["status_code"] is None:
        return "", "", False
    about = [answer_summary(attempt)]
    about += [value for name, value in attempt["response_headers"] or () if _is_type(name)]
    heading = printable(f"Answer to attempt {attempt['number']}: {', '.join(about)}")
    body = attempt["response_excerpt"] or ""
    if not body.strip():
        return f"{heading}, without a body", "", False
    text = "\n".join(printable_lines(body))
    if whole:
        return heading, text, False
    start = "\n".join(text[:_SHOWN_CHARACTERS].split("\n")[:_SHOWN_LINES])
    return heading, start, start != text


def _is_type(name: str) -> bool:
    return name.lower() == "content-type"


def _why(delivery: Mapping[str, Any]) -> str:
    """Return a sentence about the delivery's status."""
    made = delivery["attempt_count"]
    after = f"after {pluralize(made, 'attempt')}" if made else "before its first attempt"
    reason = None if delivery["reason"] is None else reason_text(delivery["reason"])
    due = delivery["next_attempt_at"]
    if delivery["place"] == "queued" and delivery["status"] != "paused":
        behind = delivery["waits_behind"] or "an earlier delivery with its ordering key"
        return f"Waits behind {behind}; it is sent when its turn comes."
    match delivery["status"]:
        case "delivered":
            answer = f": {answer_summary(delivery['attempts'][-1])}" if delivery["attempts"] else ""
            return f"Delivered {format_time(delivery['finished_at'])}, {after}{answer}."
        case "dead":
            blocked = ""
            if delivery["place"] == "head":
                waiting = pluralize(delivery["waiting_behind"], "delivery")
                blocked = f" Until it is resent or cancelled, {waiting} wait behind it."
            return f"Dead letter {after}: {reason or 'its attempts failed'}.{blocked}"
        case "gone":
            return f"Gone {after}: {reason or 'the receiver does not want it'}."
        case "cancelled":
            return f"Cancelled {after}; nothing more is sent."
        case "paused":
            return f"Paused by a person {after}; nothing is sent until it is resumed."
        case "held":
            return f"Held {after}: {reason or 'its endpoint is not ready'}."
        case status:
            waits = f" ({reason})" if reason else ""
            when = "now" if due is None else format_time(due)
            so_far, which = (f" {after}", "next") if made else ("", "first")
            return f"{status.capitalize()}{so_far}; the {which} attempt is due {when}{waits}."


def _command(delivery: Mapping[str, Any]) -> str | None:
    """Return the command that a person most likely needs next."""
    match delivery["status"]:
        case "dead" | "gone" | "cancelled":
            return f"Send it again: hookfast deliveries resend {delivery['id']}"
        case "paused":
            return f"Go on: hookfast deliveries resume {delivery['id']}"
        case "held":
            return f"See why: hookfast endpoints health {delivery['endpoint_id']}"
        case _:
            return None
