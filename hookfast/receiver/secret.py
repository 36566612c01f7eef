"""Parse endpoint secrets: `whsec_` and the base64 of an HMAC key, as Hookfast shows them."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from .errors import Misconfigured

PREFIX = "whsec_"
MIN_KEY_BYTES = 24
MAX_KEY_BYTES = 64
"""Bounds of a key's length, from the Standard Webhooks specification ("Signature scheme")."""


def hmac_keys(secrets: str | Sequence[str]) -> tuple[bytes, ...]:
    """Return the keys of one secret or several, in their order.

    Raises Misconfigured, whose message contains the secret's position and never the secret. An
    empty secret is rejected, because anybody could sign with it.
    """
    listed = [secrets] if isinstance(secrets, str) else list(secrets)
    return tuple(
        _hmac_key(secret, position=position) for position, secret in enumerate(listed, start=1)
    )


def _hmac_key(secret: object, *, position: int) -> bytes:
    if not isinstance(secret, str) or not secret:
        raise Misconfigured(f"secret {position} is empty: remove it, or set its variable")
    if "," in secret:  # some services show a secret with the version of its signatures
        raise Misconfigured(f"secret {position} has a comma in it: leave out the `v1,` in front")
    if not secret.startswith(PREFIX):
        raise Misconfigured(
            f"secret {position} does not begin with {PREFIX}: use all of what Hookfast showed"
        )
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise Misconfigured(
            f"secret {position} is not base64 after {PREFIX}: is it complete?"
        ) from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise Misconfigured(
            f"secret {position} does not have {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes: is it"
            " complete?"
        )
    return key
