"""The words of the mail to owners: what happened, what comes next, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from hookfast.owners.notice import Facts, NoticeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The words of one kind. `{which}` in them is the endpoint's host, or "12 endpoints"."""

    subject: str
    happened: str
    next: tuple[str, ...]
    todo: tuple[str, ...]


_MEND = (
    "Look at the last error above, and at your receiver's own log for that time.",
    "A delivery succeeds when your URL answers with a status from 200 to 299 within its timeout.",
)
_AGAIN = (
    "Enable the endpoint again with POST /v1/endpoints/{id}/enable once it works.",
    "Send what it missed with POST /v1/dead-letters/redrive or POST /v1/endpoints/{id}/recover.",
)

WORDING: dict[NoticeKind, Wording] = {
    NoticeKind.OPENED: Wording(
        subject="Webhooks to {which} are failing",
        happened="Webhooks to {which} keep failing, so for now we only try now and then. Every "
        "delivery is kept and waits.",
        next=(
            "We go on trying by ourselves; you need not tell us when it works again.",
            "Once a try succeeds, everything that waits is sent, slowly at first. We will tell "
            "you.",
            "If that does not happen in time, the endpoint is disabled and what waits becomes "
            "dead letters, which can be sent again.",
        ),
        todo=_MEND,
    ),
    NoticeKind.STILL_FAILING: Wording(
        subject="Webhooks to {which} are still failing",
        happened="Webhooks to {which} have not succeeded for a long time. Every delivery is still "
        "kept, but half of the time until the endpoint is disabled has passed.",
        next=(
            "We go on trying by ourselves; you need not tell us when it works again.",
            "If nothing succeeds in time, the endpoint is disabled and what waits becomes dead "
            "letters, which can be sent again.",
        ),
        todo=_MEND,
    ),
    NoticeKind.DISABLED: Wording(
        subject="Webhooks to {which} are disabled",
        happened="Webhooks to {which} are disabled: nothing is sent there any more.",
        next=(
            "Deliveries that waited, and events that come from now on, are kept as dead letters.",
        ),
        todo=(*_MEND, *_AGAIN),
    ),
    NoticeKind.RECOVERED: Wording(
        subject="Webhooks to {which} work again",
        happened="Webhooks to {which} work again.",
        next=("Everything that waited is sent, and new events go out at once.",),
        todo=(
            "Nothing. What became a dead letter meanwhile can be sent again with POST "
            "/v1/dead-letters/redrive.",
        ),
    ),
    NoticeKind.DEAD_LETTERS: Wording(
        subject="Webhooks to {which} were given up",
        happened="In the last 24 hours, deliveries to {which} ended without success.",
        next=("They are kept as dead letters for a while and then deleted.",),
        todo=(*_MEND, "Send them again with POST /v1/dead-letters/redrive."),
    ),
}


def details(kind: NoticeKind, facts: Facts, *, times: int) -> Iterator[tuple[str, str]]:
    """What is known about one endpoint, as labels and values. `times`: how often this kind of
    notice was decided since the last mail."""
    failing = kind in (NoticeKind.OPENED, NoticeKind.STILL_FAILING)
    if facts.since is not None:
        yield _SINCE.get(kind, "Failing since"), moment(facts.since)
    if times > 1:
        yield "Happened", f"{times} times; this is the latest"
    if facts.reason is not None:
        yield "Why", facts.reason
    if facts.failures and failing:
        yield "Failures in a row", f"{facts.failures:,}"
    if facts.last_error is not None and facts.last_error not in (facts.reason or ""):
        yield "Last error", facts.last_error
    if facts.held is not None and failing:
        yield "Waiting", deliveries(facts.held)
    if facts.drained and kind is NoticeKind.RECOVERED:
        yield "Waited and were sent", deliveries(facts.drained)
    if facts.dead is not None:
        yield "Dead letters", deliveries(facts.dead)
    if facts.disable_at is not None and failing:
        yield "Disabled at", f"{moment(facts.disable_at)}, unless it recovers"


def moment(at: datetime) -> str:
    """A time for people: `20 November 2026, 11:15 UTC`."""
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def deliveries(count: int) -> str:
    """`1 delivery`, `1,204 deliveries`."""
    return f"{count:,} {'delivery' if count == 1 else 'deliveries'}"


_SINCE = {NoticeKind.RECOVERED: "Failed since", NoticeKind.DEAD_LETTERS: "First one at"}
# not strftime's: those are in the language of the machine
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
