"""Signatures of Standard Webhooks and of Hookfast itself, verified by what receivers install.

`hookfast.receiver` knows these schemes already; this says which secrets it gets, and says its
errors the way all providers say them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hookfast.inbox.hmac_check import mismatch
from hookfast.inbox.provider import invalid_secret
from hookfast.inbox.received import RequestHeaders
from hookfast.inbox.refused import Refused
from hookfast.inbox.signed_time import not_now
from hookfast.receiver import (
    KeySet,
    MalformedHeader,
    Misconfigured,
    MissingHeader,
    OutsideTolerance,
    ProfileName,
    ProfileNotAccepted,
    VerificationError,
    Verifier,
)
from hookfast.receiver.keys import PUBLIC_KEY_PREFIX
from hookfast.receiver.secret import PREFIX, hmac_keys

_BY_SECRET: tuple[ProfileName, ...] = ("standard", "nonce", "hook")
_BY_PUBLIC_KEY: tuple[ProfileName, ...] = ("standard-ed25519",)


@dataclass(frozen=True, slots=True)
class Keys:
    """A source's secrets, told apart: `whsec_…` for HMAC, `whpk_…` for ed25519."""

    secrets: tuple[str, ...]
    public_keys: tuple[str, ...]


def keys_of(secrets: Iterable[str]) -> Keys:
    """What can be used of a source's secrets. Raises Refused (`secret_missing`) when nothing can:
    an empty or broken one never verifies anything."""
    usable = [secret for secret in secrets if _is_key(secret)]
    if not usable:
        raise Refused("secret_missing", "the source has no usable secret; give it one")
    return Keys(
        secrets=tuple(key for key in usable if not key.startswith(PUBLIC_KEY_PREFIX)),
        public_keys=tuple(key for key in usable if key.startswith(PUBLIC_KEY_PREFIX)),
    )


def check_key(secret: str, *, pointer: str) -> None:
    """Raise InvalidInput (`invalid_secret`), without the secret, unless it is `whsec_` or `whpk_`
    and base64 of a key of the right length."""
    try:
        _parse(secret)
    except Misconfigured as error:
        raise invalid_secret(pointer, error.message) from None


def require_signed(
    headers: RequestHeaders,
    body: bytes,
    *,
    keys: Keys,
    profiles: Sequence[ProfileName],
    tolerance: timedelta,
    now: datetime,
    allow_sha1: bool = False,
) -> None:
    """Raise Refused unless one of the keys signed this under one of the profiles
    (`secret_missing` when none of them fits any profile). Of several signatures the strongest
    profile's counts alone."""
    for name, _ in headers.items():
        if name.lower().startswith(("webhook-", "x-webhook-", "x-hook-")):
            headers.signing(name)  # Refused for one that came twice, or is no visible ASCII
    possible = (_BY_SECRET if keys.secrets else ()) + (_BY_PUBLIC_KEY if keys.public_keys else ())
    verifiable = [profile for profile in profiles if profile in possible]
    if not verifiable:
        raise Refused("secret_missing", "the source has no secret for what it accepts; give it one")
    verifier = Verifier(
        keys.secrets,
        public_keys=KeySet.from_public_keys(*keys.public_keys) if keys.public_keys else None,
        profiles=verifiable,
        tolerance=tolerance,
        allow_sha1=allow_sha1,
        clock=lambda: now,
    )
    try:
        verifier.verify(headers, body)
    except VerificationError as error:
        raise _refused(error, tolerance=tolerance) from None


def _refused(error: VerificationError, *, tolerance: timedelta) -> Refused:
    match error:
        case MissingHeader():
            return Refused(
                "signature_missing",
                f"{error.header} is missing: does the sender sign, and does no proxy in front of "
                "Hookfast strip the header?",
            )
        case MalformedHeader() if error.header.lower().endswith("timestamp"):
            return Refused("timestamp_malformed", error.message)
        case MalformedHeader():
            return Refused("signature_malformed", error.message)
        case ProfileNotAccepted():
            return Refused(
                "signature_not_accepted",
                "signed, but in no way this source accepts: compare its secrets and options with "
                "what the sender signs with",
            )
        case OutsideTolerance():
            return not_now(abs(error.age.total_seconds()), tolerance=tolerance)
        case _:
            return mismatch()


def _is_key(secret: str) -> bool:
    try:
        _parse(secret)
    except Misconfigured:
        return False
    return True


def _parse(secret: str) -> None:
    if secret.startswith(PUBLIC_KEY_PREFIX):
        KeySet.from_public_keys(secret)
    elif secret.startswith(PREFIX):
        hmac_keys(secret)
    else:
        raise Misconfigured(
            f"a secret begins with {PREFIX}, or with {PUBLIC_KEY_PREFIX} when it is a public key: "
            "give it whole, as the sender showed it"
        )
