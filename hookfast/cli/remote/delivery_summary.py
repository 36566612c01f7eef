"""What `hookfast deliveries show` says of a delivery in sentences, and of an answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookfast.cli.remote.screen import printable, printable_lines
from hookfast.cli.remote.times import format_time
from hookfast.deliveries import wording
from hookfast.deliveries.answer import status_text
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.plural import pluralize

_SHOWN_LINES, _SHOWN_CHARACTERS = 12, 800


def next_step(delivery: Mapping[str, Any]) -> list[str]:
    """Return why a delivery has its status, and what comes next, as lines. A newer service may know
    other statuses; of these there is nothing to say."""
    if delivery["status"] not in tuple(DeliveryStatus):
        return []
    lines = [_why(delivery)]
    if following := _next(delivery):
        lines.append(following)
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
    """Return a sentence about the delivery's state, and how often it was attempted."""
    made, due, status = delivery["attempt_count"], delivery["next_attempt_at"], _status(delivery)
    after = f"after {pluralize(made, 'attempt')}" if made else "before its first attempt"
    if status is DeliveryStatus.DELIVERED:
        answer = f": {answer_summary(delivery['attempts'][-1])}" if delivery["attempts"] else ""
        return f"Delivered {format_time(delivery['finished_at'])}, {after}{answer}."
    said = wording.state(
        status, delivery["reason"], tone=wording.Tone.OPERATOR, place=delivery["place"]
    )
    if wording.is_queued(status, delivery["place"]):
        return f"{said}." if (behind := delivery["waits_behind"]) is None else f"{said}: {behind}."
    if status in (DeliveryStatus.PENDING, DeliveryStatus.RETRYING):
        when = "now" if due is None else format_time(due)
        so_far = f", {after}" if made else ""
        return f"{said}{so_far}; the {'next' if made else 'first'} attempt is due {when}."
    return f"{said}, {after}."


def _next(delivery: Mapping[str, Any]) -> str:
    """Return what happens next, and since when and until when it waits."""
    status = _status(delivery)
    if status.finished:
        if status is DeliveryStatus.DEAD and delivery["place"] == "head":
            waiting = pluralize(delivery["waiting_behind"], "delivery")
            return f"It holds up {waiting} behind it until it is resent or cancelled."
        return ""
    sentences = [
        wording.next_step(
            status, delivery["reason"], tone=wording.Tone.OPERATOR, place=delivery["place"]
        )
    ]
    if (since := delivery["held_since"]) is not None:
        sentences.append(f"It has waited since {format_time(since)}.")
    if (check := delivery["next_check_at"]) is not None:
        sentences.append(
            f"Its next check is at {format_time(check)}, if nothing releases it before."
        )
    return " ".join(sentence for sentence in sentences if sentence)


def _status(delivery: Mapping[str, Any]) -> DeliveryStatus:
    return DeliveryStatus(delivery["status"])


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
