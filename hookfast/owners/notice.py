"""Notices to the owners of endpoints, and the hash that stands for an owner's address. Pure.

A notice is a row first (`hookfast.storage.owners.notices`); `hookfast.mail` has the words.
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
    """What a notice is about."""

    OPENED = "opened"  # the endpoint keeps failing; its deliveries are held
    STILL_FAILING = "still_failing"  # half of the time until it is disabled has passed
    DISABLED = "disabled"
    RECOVERED = "recovered"
    DEAD_LETTERS = "dead_letters"  # the daily summary


class NoticeStatus(StrEnum):
    """The status of a notice."""

    PENDING = "pending"
    SENT = "sent"  # a mail server accepted it, or it was written to a file
    REFUSED = "refused"  # the mail server rejected the address permanently
    DROPPED = "dropped"  # the endpoint was deleted, or the owner removed, before it was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a notice when it was created; None if unknown.

    `held`, `dead` and `drained` count deliveries; `failures` counts attempts. `reason` says why the
    endpoint was disabled, and `disable_at` when it will be if it does not recover.
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
        """Read facts from JSON (times in RFC 3339). Invalid values are left out: a mail without a
        fact is better than no mail."""
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
    """Return the hash that replaces an owner's address in workflow ids, histories and logs: 32 hex
    digits, the same in upper and lower case."""
    return hashlib.sha256(email.lower().encode()).hexdigest()[:32]


def one_per_owner(emails: Iterable[str]) -> list[str]:
    """Remove addresses that differ from an earlier one only in upper and lower case."""
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
