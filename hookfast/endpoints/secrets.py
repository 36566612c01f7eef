"""The sealed parts of an endpoint: its signing secrets and the values of its headers. Pure.

The column `secrets` is a list, newest first, of

    {"sealed": …, "created_at": …, "expires_at": … | null}                    an HMAC secret
    {"sealed": …, "created_at": …, "expires_at": … | null,
     "kind": "ed25519", "public": "whpk_…"}                                   an ed25519 key

and all secrets that have not expired sign. The column `headers` maps names to `{"sealed": …}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hookfast.clock import rfc3339
from hookfast.errors import Conflict
from hookfast.signing.keyring import Keyring
from hookfast.signing.keys import ed25519_key, generate_ed25519, public_key_text
from hookfast.signing.signature import generate_secret, secret_key

MAX_LIVE = 5
"""Most secrets of one kind that sign at once: each makes every request longer."""

Secret = dict[str, Any]
"""An element of the column `secrets`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecrets:
    """The keys that sign an endpoint's requests, newest first."""

    hmac: tuple[bytes, ...]
    ed25519: tuple[Ed25519PrivateKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The column `secrets` after a rotation, and the new secret, which is shown only once."""

    secrets: list[Secret]
    secret: str


def seal_secret(secret: str, keyring: Keyring, *, endpoint_id: str, at: datetime) -> Secret:
    """Seal a `whsec_…` secret for the column `secrets`."""
    sealed = keyring.seal(secret, context=endpoint_id)
    return {"sealed": sealed, "created_at": rfc3339(at), "expires_at": None}


def new_ed25519_secret(keyring: Keyring, *, endpoint_id: str, at: datetime) -> Secret:
    """Create an ed25519 key for the column `secrets`. Its private part is never shown."""
    text = generate_ed25519()
    return {
        "kind": "ed25519",
        "sealed": keyring.seal(text, context=_ed25519_context(endpoint_id)),
        "public": public_key_text(ed25519_key(text)),
        "created_at": rfc3339(at),
        "expires_at": None,
    }


def live_secrets(secrets: Sequence[Secret], now: datetime) -> list[Secret]:
    """Return the secrets that sign now."""
    return [one for one in secrets if (end := expiry_of(one)) is None or end > now]


def ending_secrets(secrets: Sequence[Secret], *, end: datetime, now: datetime) -> list[Secret]:
    """Return the secrets that sign now, each with an expiry no later than `end`."""
    return [
        one | {"expires_at": rfc3339(min(expiry_of(one) or end, end))}
        for one in live_secrets(secrets, now)
    ]


def expiry_of(secret: Secret) -> datetime | None:
    """Return the time at which a secret or credential expires; None if it does not."""
    text = secret["expires_at"]
    return None if text is None else datetime.fromisoformat(text)


def has_ed25519(secrets: Sequence[Secret]) -> bool:
    """Whether there is an ed25519 key that does not expire."""
    return any(_kind(secret) == "ed25519" and expiry_of(secret) is None for secret in secrets)


def rotate(
    secrets: Sequence[Secret],
    keyring: Keyring,
    *,
    endpoint_id: str,
    overlap: timedelta,
    now: datetime,
) -> Rotation:
    """Add a new secret, and a new ed25519 key if there was one. Secrets that sign now do so for
    `overlap` at most; expired ones are removed.

    Raises Conflict if more than MAX_LIVE of a kind would sign. Without an overlap, as after a leak,
    it never does.
    """
    kept = ending_secrets(secrets, end=now + overlap, now=now)
    secret = generate_secret()
    fresh = [seal_secret(secret, keyring, endpoint_id=endpoint_id, at=now)]
    if has_ed25519(secrets):
        fresh.append(new_ed25519_secret(keyring, endpoint_id=endpoint_id, at=now))
    stored = live_secrets(fresh + kept, now)
    if any(_count(stored, kind) > MAX_LIVE for kind in ("hmac", "ed25519")):
        first = min(end for end in map(expiry_of, stored) if end is not None)
        raise Conflict(
            f"{MAX_LIVE} secrets of this endpoint sign already. Wait until {rfc3339(first)}, when "
            "the next one expires, or rotate with `overlap_seconds` 0, which ends the others now.",
            code="too_many_secrets",
        )
    return Rotation(secrets=stored, secret=secret)


def open_secrets(
    secrets: Sequence[Secret], keyring: Keyring, *, endpoint_id: str, now: datetime
) -> SigningSecrets:
    """Open the keys that sign now. Raises Misconfigured if a key cannot be opened."""
    hmac: list[bytes] = []
    ed25519: list[Ed25519PrivateKey] = []
    for secret in live_secrets(secrets, now):
        opened = keyring.open(secret["sealed"], context=_context(endpoint_id, secret))
        if _kind(secret) == "ed25519":
            ed25519.append(ed25519_key(opened))
        else:
            hmac.append(secret_key(opened))
    return SigningSecrets(hmac=tuple(hmac), ed25519=tuple(ed25519))


def seal_headers(headers: Mapping[str, str], keyring: Keyring, *, endpoint_id: str) -> Secret:
    """Seal headers for the column `headers`. A value is bound to its header's name, so it cannot be
    moved to another header, for example one that the receiver logs."""
    return {
        name: {"sealed": keyring.seal(value, context=_header_context(endpoint_id, name))}
        for name, value in headers.items()
    }


def open_headers(
    stored: Mapping[str, Any], keyring: Keyring, *, endpoint_id: str
) -> dict[str, str]:
    """Open the headers to send. Raises Misconfigured if a header cannot be opened."""
    return {
        name: keyring.open(value["sealed"], context=_header_context(endpoint_id, name))
        for name, value in stored.items()
    }


def sealed_texts(
    secrets: Sequence[Secret], headers: Mapping[str, Any], *, endpoint_id: str
) -> Iterator[tuple[str, str]]:
    """Yield each sealed text of an endpoint with its context."""
    for secret in secrets:
        yield _context(endpoint_id, secret), secret["sealed"]
    for name, value in headers.items():
        yield _header_context(endpoint_id, name), value["sealed"]


def reseal(
    secrets: Sequence[Secret], headers: Mapping[str, Any], keyring: Keyring, *, endpoint_id: str
) -> tuple[list[Secret], Secret]:
    """Seal both columns with the newest key. Raises Misconfigured if a value cannot be opened."""
    fresh = [
        secret | {"sealed": keyring.reseal(secret["sealed"], context=_context(endpoint_id, secret))}
        for secret in secrets
    ]
    sealed = {
        name: {
            "sealed": keyring.reseal(value["sealed"], context=_header_context(endpoint_id, name))
        }
        for name, value in headers.items()
    }
    return fresh, sealed


def _kind(secret: Secret) -> str:
    return str(secret.get("kind", "hmac"))


def _count(secrets: Sequence[Secret], kind: str) -> int:
    return sum(_kind(secret) == kind for secret in secrets)


def _context(endpoint_id: str, secret: Secret) -> str:
    return _ed25519_context(endpoint_id) if _kind(secret) == "ed25519" else endpoint_id


def _ed25519_context(endpoint_id: str) -> str:
    return f"{endpoint_id} (ed25519)"


def _header_context(endpoint_id: str, name: str) -> str:
    return f"{endpoint_id} (header {name.lower()})"
