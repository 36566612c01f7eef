"""The text of the mail to owners: what happened, what follows, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from hookfast.owners.notice import Facts, NoticeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The text about one kind of notice. `{which}` is the endpoint's host, or "12 endpoints"."""

    subject: str
    happened: str
    next: tuple[str, ...]
    todo: tuple[str, ...]


_WE_KEEP_TRYING = "We keep trying automatically; you do not need to contact us when it works again."
_UNLESS_IT_WORKS = (
    "If no try succeeds in time, the endpoint is disabled and held deliveries become dead letters, "
    "which can be resent."
)
_FIX = (
    "Look at the last error above, and at your receiver's own log for that time.",
    "A delivery succeeds when your URL answers with a status from 200 to 299 within its timeout.",
)
_RESEND = (
    "Enable the endpoint again with POST /v1/endpoints/{id}/enable once it works.",
    "Resend missed deliveries with POST /v1/dead-letters/redrive or "
    "POST /v1/endpoints/{id}/recover.",
)

WORDING: dict[NoticeKind, Wording] = {
    NoticeKind.OPENED: Wording(
        subject="Webhooks to {which} are failing",
        happened="Webhooks to {which} keep failing, so we hold new deliveries and only try one "
        "from time to time. No delivery is lost.",
        next=(
            _WE_KEEP_TRYING,
            "When a try succeeds, all held deliveries are sent, slowly at first, and we notify "
            "you.",
            _UNLESS_IT_WORKS,
        ),
        todo=_FIX,
    ),
    NoticeKind.STILL_FAILING: Wording(
        subject="Webhooks to {which} are still failing",
        happened="Webhooks to {which} have not succeeded for a long time. No delivery is lost, but "
        "half of the time until the endpoint is disabled has passed.",
        next=(_WE_KEEP_TRYING, _UNLESS_IT_WORKS),
        todo=_FIX,
    ),
    NoticeKind.DISABLED: Wording(
        subject="Webhooks to {which} are disabled",
        happened="Webhooks to {which} are disabled: nothing is sent there any more.",
        next=("Held deliveries and new events are kept as dead letters.",),
        todo=(*_FIX, *_RESEND),
    ),
    NoticeKind.RECOVERED: Wording(
        subject="Webhooks to {which} work again",
        happened="Webhooks to {which} work again.",
        next=("All held deliveries are sent, and new events are sent at once.",),
        todo=(
            "Nothing. Deliveries that became dead letters meanwhile can be resent with POST "
            "/v1/dead-letters/redrive.",
        ),
    ),
    NoticeKind.DEAD_LETTERS: Wording(
        subject="Webhooks to {which} were given up",
        happened="In the last 24 hours, deliveries to {which} ended without success.",
        next=("They are kept as dead letters for a while and then deleted.",),
        todo=(*_FIX, "Resend them with POST /v1/dead-letters/redrive."),
    ),
}


def details(kind: NoticeKind, facts: Facts, *, times: int) -> Iterator[tuple[str, str]]:
    """Yield the facts about one endpoint as labels and values. `times`: how many notices of this
    kind there were since the last mail."""
    failing = kind in (NoticeKind.OPENED, NoticeKind.STILL_FAILING)
    if facts.since is not None:
        yield _SINCE.get(kind, "Failing since"), format_moment(facts.since)
    if times > 1:
        yield "Happened", f"{times} times; this is the latest"
    if facts.reason is not None:
        yield "Why", facts.reason
    if facts.failures and failing:
        yield "Failures in a row", f"{facts.failures:,}"
    if facts.last_error is not None and facts.last_error not in (facts.reason or ""):
        yield "Last error", facts.last_error
    if facts.held is not None and failing:
        yield "Held", deliveries(facts.held)
    if facts.drained and kind is NoticeKind.RECOVERED:
        yield "Held and then sent", deliveries(facts.drained)
    if facts.dead is not None:
        yield "Dead letters", deliveries(facts.dead)
    if facts.disable_at is not None and failing:
        yield "Disabled at", f"{format_moment(facts.disable_at)}, unless it recovers"


def format_moment(at: datetime) -> str:
    """Format a time for people: `20 November 2026, 11:15 UTC`."""
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def deliveries(count: int) -> str:
    """Format a number of deliveries: `1 delivery`, `1,204 deliveries`."""
    return f"{count:,} {'delivery' if count == 1 else 'deliveries'}"


_SINCE = {NoticeKind.RECOVERED: "Failed since", NoticeKind.DEAD_LETTERS: "First one at"}
# not by strftime, whose names are in the machine's language
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
