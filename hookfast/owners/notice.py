"""What owners are told about their endpoints, and how one owner is named without the address. Pure.

A notice is a row first (`hookfast.storage.owners.notices`); the words are `hookfast.mail`'s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hookfast.clock import to_utc


class NoticeKind(StrEnum):
    """What happened."""

    OPENED = "opened"  # the endpoint keeps failing; its deliveries are held
    STILL_FAILING = "still_failing"  # half of the time until it is disabled has passed
    DISABLED = "disabled"
    RECOVERED = "recovered"
    DEAD_LETTERS = "dead_letters"  # the daily summary


class NoticeStatus(StrEnum):
    """What became of a notice."""

    PENDING = "pending"
    SENT = "sent"  # a mail server took it, or it is a file
    REFUSED = "refused"  # the mail server will never take it for this address
    DROPPED = "dropped"  # the endpoint was deleted, or the address taken off it, before it was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was known when a notice was decided; None where it was not.

    `held`, `dead` and `drained` count deliveries; `failures` counts attempts. `reason` says why the
    endpoint was disabled; `disable_at` when it will be, should nothing change.
    """

    since: datetime | None = None
    last_error: str | None = None
    failures: int | None = None
    held: int | None = None
    dead: int | None = None
    drained: int | None = None
    reason: str | None = None
    disable_at: datetime | None = None

    @classmethod
    def parse(cls, stored: Mapping[str, Any]) -> Facts:
        """Facts from JSON (times in RFC 3339). What does not fit is left out: a mail with a fact
        less beats none."""
        return cls(
            since=_time(stored.get("since")),
            last_error=_text(stored.get("last_error")),
            failures=_count(stored.get("failures")),
            held=_count(stored.get("held")),
            dead=_count(stored.get("dead")),
            drained=_count(stored.get("drained")),
            reason=_text(stored.get("reason")),
            disable_at=_time(stored.get("disable_at")),
        )


def owner_hash(email: str) -> str:
    """What stands for an owner's address in workflow ids, histories and logs: 32 hex digits, the
    same however the address is capitalised."""
    return hashlib.sha256(email.lower().encode()).hexdigest()[:32]


def one_per_owner(emails: Iterable[str]) -> list[str]:
    """The addresses without those that are an earlier one, capitalised in another way."""
    first: dict[str, str] = {}
    for email in emails:
        first.setdefault(owner_hash(email), email)
    return list(first.values())


def _time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return to_utc(datetime.fromisoformat(value))
    except ValueError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
