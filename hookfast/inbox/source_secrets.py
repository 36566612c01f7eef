"""The secrets with which a source's provider signs, encrypted at rest. Pure.

The column `secrets` is a list, newest first, of `{"sealed": …, "created_at": …, "expires_at": … |
null}`, the same format as an endpoint's HMAC secrets. Every secret that has not expired verifies.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hookfast.endpoints.secrets import (
    Secret,
    ending_secrets,
    expiry_of,
    live_secrets,
    seal_secret,
)
from hookfast.errors import Conflict
from hookfast.signing.keyring import Keyring

MAX_LIVE = 5
"""Most secrets that verify at the same time: each one costs an HMAC over each body."""


@dataclass(frozen=True, slots=True)
class OpenSecret:
    """A decrypted secret; it verifies until `expires_at` (None: until it is rotated)."""

    text: str = field(repr=False)
    expires_at: datetime | None


def new_secret() -> str:
    """Return a new secret of 256 random bits, for a provider where the user chooses the secret."""
    return random.token_urlsafe(32)


def sealed_secrets(
    texts: Sequence[str], keyring: Keyring, *, source_id: str, at: datetime
) -> list[Secret]:
    """Return the column's value for new secrets without expiry."""
    return [seal_secret(text, keyring, endpoint_id=source_id, at=at) for text in texts]


def rotated(
    stored: Sequence[Secret],
    text: str,
    keyring: Keyring,
    *,
    source_id: str,
    overlap: timedelta,
    now: datetime,
) -> list[Secret]:
    """Return the column's value with a new secret in front; older ones verify for `overlap` more at
    most, expired ones are dropped. Raises Conflict (`too_many_secrets`) beyond MAX_LIVE."""
    kept = ending_secrets(stored, end=now + overlap, now=now)
    fresh = seal_secret(text, keyring, endpoint_id=source_id, at=now)
    column = live_secrets([fresh, *kept], now)
    if len(column) > MAX_LIVE:
        raise Conflict(
            f"A source has at most {MAX_LIVE} valid secrets. Wait until one has expired, or rotate "
            "with `overlap_seconds` 0, which ends all older ones now.",
            code="too_many_secrets",
        )
    return column


def open_secrets(
    stored: Sequence[Secret], keyring: Keyring, *, source_id: str, now: datetime
) -> tuple[OpenSecret, ...]:
    """Decrypt the secrets that verify now, newest first. Raises Misconfigured when one cannot be
    decrypted."""
    return tuple(
        OpenSecret(keyring.open(secret["sealed"], context=source_id), expiry_of(secret))
        for secret in live_secrets(stored, now)
    )
