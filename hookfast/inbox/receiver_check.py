"""Verify signatures of Standard Webhooks and of Hookfast with the package for receivers.

`hookfast.receiver` implements these schemes; this module passes it the source's secrets, and
converts its errors into those of the inbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import signature_mismatch
from hookfast.inbox.provider import invalid_secret
from hookfast.inbox.request import RequestHeaders
from hookfast.inbox.signed_time import out_of_tolerance
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
from hookfast.signing.signature import secret_key

_BY_SECRET: tuple[ProfileName, ...] = ("standard", "nonce", "hook")
_BY_PUBLIC_KEY: tuple[ProfileName, ...] = ("standard-ed25519",)


def check_key(secret: str, *, pointer: str) -> None:
    """Raise InvalidInput (`invalid_secret`) unless the secret is `whsec_` or `whpk_` and the base64
    of a key of the right length. The message does not contain the secret."""
    try:
        _parse(secret)
    except Misconfigured as error:
        raise invalid_secret(pointer, error.message) from None


def signing_key(secret: str) -> bytes:
    """Return the HMAC key with which to sign a sample. Raises InvalidInput for a public key."""
    if secret.startswith(PUBLIC_KEY_PREFIX):
        raise invalid_secret("/secret", "a public key cannot sign; add a whsec_ to the source")
    return secret_key(secret)


def require_signed(
    headers: RequestHeaders,
    body: bytes,
    *,
    secrets: Sequence[str],
    profiles: Sequence[ProfileName],
    tolerance_seconds: int,
    now: datetime,
    allow_sha1: bool = False,
) -> None:
    """Raise RequestRejected unless one of the secrets (`whsec_…` for HMAC, `whpk_…` for ed25519)
    signed this request under one of the profiles: `secret_missing` when none of them is usable for
    these profiles. Of several signatures, only the one of the strongest profile counts."""
    usable = [secret for secret in secrets if _is_key(secret)]
    public_keys = [secret for secret in usable if secret.startswith(PUBLIC_KEY_PREFIX)]
    hmac_secrets = [secret for secret in usable if secret not in public_keys]
    possible = (_BY_SECRET if hmac_secrets else ()) + (_BY_PUBLIC_KEY if public_keys else ())
    verifiable = [profile for profile in profiles if profile in possible]
    if not verifiable:
        raise RequestRejected(
            "secret_missing",
            "the source has no usable secret for the signatures that it accepts; add one to it",
        )
    for name, _ in headers.items():
        if name.lower().startswith(("webhook-", "x-webhook-", "x-hook-")):
            headers.signing(name)  # rejects repeated headers and values that are not visible ASCII
    verifier = Verifier(
        hmac_secrets,
        public_keys=KeySet.from_public_keys(*public_keys) if public_keys else None,
        profiles=verifiable,
        tolerance=timedelta(seconds=tolerance_seconds),
        allow_sha1=allow_sha1,
        clock=lambda: now,
    )
    try:
        verifier.verify(headers, body)
    except VerificationError as error:
        raise _rejection(error, tolerance_seconds=tolerance_seconds) from None


def _rejection(error: VerificationError, *, tolerance_seconds: int) -> RequestRejected:
    match error:
        case MissingHeader():
            return RequestRejected(
                "signature_missing",
                f"{error.header} is missing: check that the sender signs, and that no proxy in "
                "front of Hookfast strips the header",
            )
        case MalformedHeader() if error.header.lower().endswith("timestamp"):
            return RequestRejected("timestamp_malformed", error.message)
        case MalformedHeader():
            return RequestRejected("signature_malformed", error.message)
        case ProfileNotAccepted():
            return RequestRejected(
                "signature_not_accepted",
                "the request is signed, but not in a way that this source accepts: compare its "
                "secrets and options with those of the sender",
            )
        case OutsideTolerance():
            difference = abs(error.age.total_seconds())
            return out_of_tolerance(difference, tolerance_seconds=tolerance_seconds)
        case _:
            return signature_mismatch()


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
            f"a secret begins with {PREFIX}, a public key with {PUBLIC_KEY_PREFIX}: give it "
            "complete, as the sender showed it"
        )
