"""Signatures: the headers that let a receiver check who sent a body, and when. Pure.

A profile is a set of headers with its own signed message; an endpoint uses one or more, so that
old and new receivers both verify. While a secret is being rotated the old and the new one both
sign, newest first, and a receiver accepts any signature it knows.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

from hookfast.errors import InvalidInput

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
MIN_KEY_BYTES = 24
MAX_KEY_BYTES = 64
"""Bounds of an HMAC key, from the Standard Webhooks specification ("Signature scheme")."""


class Profile(StrEnum):
    """A way to sign. Each is one private function below."""

    HOOK = "hook"  # X-Hook-Signature: <hash>=<hex>, over timestamp.body
    STANDARD = "standard"  # Standard Webhooks: v1,<base64>, over id.timestamp.body


class HashName(StrEnum):
    """The hash inside the HMAC of the profiles that leave a choice."""

    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


DEFAULT_PROFILES = (Profile.HOOK, Profile.STANDARD)


def generate_secret() -> str:
    """A new endpoint secret: `whsec_` and the base64 of 32 random bytes."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_key(secret: str) -> bytes:
    """The HMAC key a secret stands for, the same for every profile: the decoded base64 (RFC 4648,
    section 4, padded) after `whsec_`. Raises InvalidInput, without the secret, when it is none."""
    encoded = secret.removeprefix(SECRET_PREFIX)
    if encoded == secret:
        raise _invalid_secret(f"a secret starts with {SECRET_PREFIX!r}")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
        raise _invalid_secret(f"a secret is base64 with padding after {SECRET_PREFIX!r}") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise _invalid_secret(f"a secret holds {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes")
    return key


def parse_profiles(names: Sequence[str], *, pointer: str = "/signatures") -> tuple[Profile, ...]:
    """The profiles with these names, in their order. Raises InvalidInput, pointing into `pointer`,
    for an unknown or repeated name and for none at all."""
    if not names:
        raise _invalid_profiles(pointer, f"name at least one signature profile: {_PROFILE_NAMES}")
    profiles: list[Profile] = []
    for index, name in enumerate(names):
        try:
            profile = Profile(name)
        except ValueError:
            raise _invalid_profiles(
                f"{pointer}/{index}", f"no signature profile has that name; use {_PROFILE_NAMES}"
            ) from None
        if profile in profiles:
            raise _invalid_profiles(f"{pointer}/{index}", "this signature profile is there twice")
        profiles.append(profile)
    return tuple(profiles)


def sign(
    profile: Profile,
    *,
    keys: Sequence[bytes],
    message_id: str,
    timestamp: int,
    body: bytes,
    hash_name: HashName = HashName.SHA256,
) -> dict[str, str]:
    """The headers `profile` adds to a request that sends exactly `body`.

    `keys` are HMAC keys (see `secret_key`), newest first; each one signs. `timestamp` is the time
    of the attempt in Unix seconds. Raises ValueError without a key: such a request would go out
    unsigned.
    """
    if not keys:
        raise ValueError("a request cannot be signed without a key")
    match profile:
        case Profile.HOOK:
            return _hook(keys, timestamp, body=body, hash_name=hash_name)
        case Profile.STANDARD:
            return _standard(keys, message_id, timestamp=timestamp, body=body)
        case _:
            assert_never(profile)


def _hook(
    keys: Sequence[bytes], timestamp: int, *, body: bytes, hash_name: HashName
) -> dict[str, str]:
    message = b"%d.%b" % (timestamp, body)
    signatures = (f"{hash_name}={hmac.digest(key, message, hash_name.value).hex()}" for key in keys)
    return {"X-Hook-Signature": ",".join(signatures), "X-Hook-Timestamp": str(timestamp)}


def _standard(
    keys: Sequence[bytes], message_id: str, *, timestamp: int, body: bytes
) -> dict[str, str]:
    # v1 is HMAC-SHA-256 by definition, whatever hash the endpoint chose for its other profiles
    message = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signatures = (
        "v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode() for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


_PROFILE_NAMES = ", ".join(Profile)


def _invalid_secret(detail: str) -> InvalidInput:
    return InvalidInput.at("/secret", detail, code="invalid_secret")


def _invalid_profiles(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_signatures")
