"""The secrets a source's provider signs with, sealed at rest. Pure.

The column `secrets` is a list, newest first, of `{"sealed": …, "created_at": …, "expires_at": … |
null}`, the same form as an endpoint's HMAC secrets; any one that has not expired verifies.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hookfast.clock import rfc3339
from hookfast.endpoints.secrets import Secret, live, sealed_secret
from hookfast.errors import Conflict
from hookfast.signing.keyring import Keyring

MAX_LIVE = 5
"""Secrets that verify at once: each one is one more HMAC over each body."""


@dataclass(frozen=True, slots=True)
class OpenSecret:
    """A secret, and until when it verifies (None: until it is rotated)."""

    text: str = field(repr=False)
    expires_at: datetime | None


def new_secret() -> str:
    """A secret to enter at a provider that lets one choose it: 256 random bits."""
    return random.token_urlsafe(32)


def sealed_secrets(
    texts: Sequence[str], keyring: Keyring, *, source_id: str, at: datetime
) -> list[Secret]:
    """The column for these secrets, none of which expires."""
    return [sealed_secret(text, keyring, endpoint_id=source_id, at=at) for text in texts]


def rotated(
    stored: Sequence[Secret],
    text: str,
    keyring: Keyring,
    *,
    source_id: str,
    overlap: timedelta,
    now: datetime,
) -> list[Secret]:
    """The column with a new secret in front; what was live verifies for `overlap` more at most.
    Expired ones are dropped. Raises Conflict (`too_many_secrets`) beyond MAX_LIVE."""
    ends = now + overlap
    kept = [
        one | {"expires_at": rfc3339(min(_ends(one) or ends, ends))} for one in live(stored, now)
    ]
    fresh = sealed_secret(text, keyring, endpoint_id=source_id, at=now)
    column = live([fresh, *kept], now)
    if len(column) > MAX_LIVE:
        raise Conflict(
            f"At most {MAX_LIVE} secrets verify at once. Wait until one has expired, or rotate "
            "with `overlap_seconds` 0, which ends all older ones now.",
            code="too_many_secrets",
        )
    return column


def open_secrets(
    stored: Sequence[Secret], keyring: Keyring, *, source_id: str, now: datetime
) -> tuple[OpenSecret, ...]:
    """Those that verify now, newest first. Raises Misconfigured when one cannot be opened."""
    return tuple(
        OpenSecret(keyring.open(one["sealed"], context=source_id), _ends(one))
        for one in live(stored, now)
    )


def _ends(secret: Secret) -> datetime | None:
    text = secret["expires_at"]
    return None if text is None else datetime.fromisoformat(text)
