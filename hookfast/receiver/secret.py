"""Endpoint secrets: `whsec_` and the base64 of an HMAC key, as Hookfast shows them once."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from .errors import Misconfigured

PREFIX = "whsec_"
MIN_KEY_BYTES = 24
MAX_KEY_BYTES = 64
"""Bounds of a key, from the Standard Webhooks specification ("Signature scheme")."""


def hmac_keys(secrets: str | Sequence[str]) -> tuple[bytes, ...]:
    """The keys of these secrets, in their order. One secret may be given as it is.

    Raises Misconfigured, which says the place and never the secret: an empty secret would let
    anybody sign.
    """
    listed = [secrets] if isinstance(secrets, str) else list(secrets)
    return tuple(_hmac_key(secret, place=place) for place, secret in enumerate(listed, start=1))


def _hmac_key(secret: object, *, place: int) -> bytes:
    if not isinstance(secret, str) or not secret:
        raise Misconfigured(f"secret {place} is empty: leave it out, or set its variable")
    if not secret.startswith(PREFIX):
        raise Misconfigured(
            f"secret {place} does not begin with {PREFIX}: give it whole, as Hookfast showed it"
        )
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
        raise Misconfigured(f"secret {place} is not base64 after {PREFIX}: is it whole?") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise Misconfigured(
            f"secret {place} does not hold {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes: is it whole?"
        )
    return key
