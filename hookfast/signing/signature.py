"""Sign requests: the headers with which a receiver checks who sent a body, and when. Pure.

A profile is a set of headers with its own signed message; an endpoint uses one or more, so that old
and new receivers can verify. During a rotation, the old and the new secret both sign, newest first,
and a receiver accepts any signature that it knows. docs/signatures.md describes each profile, with
test vectors.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hookfast.errors import InvalidInput
from hookfast.signing.keys import RsaSigner

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
MIN_KEY_BYTES = 24
MAX_KEY_BYTES = 64
"""Bounds of an HMAC key's length, from the Standard Webhooks specification ("Signature scheme")."""


class Profile(StrEnum):
    """A way to sign."""

    HOOK = "hook"  # X-Hook-Signature: <hash>=<hex>, over timestamp.body
    STANDARD = "standard"  # Standard Webhooks: v1,<base64>, over id.timestamp.body
    STANDARD_ED25519 = "standard-ed25519"  # Standard Webhooks: v1a,<base64>, over the same
    NONCE = "nonce"  # X-Webhook-Signature: sha256=<hex>, over timestamp.nonce.body
    BODY = "body"  # X-Webhook-Signature: sha256=<hex>, over body
    RSA = "rsa"  # X-Webhook-Signature: rsa-sha256=<base64>, over timestamp.body


class HashName(StrEnum):
    """The hash inside the HMAC of the profile `hook`."""

    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


DEFAULT_PROFILES = (Profile.HOOK, Profile.STANDARD)
_SHARED_HEADER = "webhook-signature"  # where both `standard` profiles sign
# They all sign in X-Webhook-Signature, in different formats.
_CONFLICTING = (Profile.NONCE, Profile.BODY, Profile.RSA)


def generate_secret() -> str:
    """Return a new endpoint secret: `whsec_` and the base64 of 32 random bytes."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_key(secret: str) -> bytes:
    """Return the HMAC key of a secret, the same for every profile: the decoded base64 (RFC 4648,
    section 4, padded) after `whsec_`. Raises InvalidInput, which does not contain the secret."""
    encoded = secret.removeprefix(SECRET_PREFIX)
    if "," in secret:  # some services show a secret with the version of its signatures
        raise _invalid_secret("a secret has no comma in it: leave out the `v1,` in front")
    if encoded == secret:
        raise _invalid_secret(f"a secret must start with {SECRET_PREFIX!r}")
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise _invalid_secret(f"a secret must be padded base64 after {SECRET_PREFIX!r}") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise _invalid_secret(f"a secret must have {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes")
    return key


def parse_profiles(names: Sequence[str], *, pointer: str = "/signatures") -> tuple[Profile, ...]:
    """Return the profiles with these names, in their order. Raises InvalidInput, pointing into
    `pointer`, for an unknown or repeated name, conflicting profiles, and an empty list."""
    if not names:
        raise _invalid_profiles(pointer, f"name at least one signature profile: {_PROFILE_NAMES}")
    profiles: list[Profile] = []
    for index, name in enumerate(names):
        at = f"{pointer}/{index}"
        try:
            profile = Profile(name)
        except ValueError:
            raise _invalid_profiles(
                at, f"unknown signature profile; use {_PROFILE_NAMES}"
            ) from None
        if profile in profiles:
            raise _invalid_profiles(at, "this signature profile is repeated; remove it")
        conflict = next(
            (other for other in profiles if {other, profile} <= set(_CONFLICTING)), None
        )
        if conflict is not None:
            raise _invalid_profiles(
                at,
                f"the profiles {conflict} and {profile} both sign in X-Webhook-Signature, so an "
                "endpoint can have only one of them",
            )
        profiles.append(profile)
    return tuple(profiles)


def new_nonce() -> str:
    """Return a nonce for one attempt: 128 random bits, in hex."""
    return secrets.token_hex(16)


def sign(
    profile: Profile,
    *,
    keys: Sequence[bytes],
    message_id: str,
    timestamp: int,
    body: bytes,
    hash_name: HashName = HashName.SHA256,
    event_type: str = "",
    attempt: int = 1,
    nonce: str = "",
    ed25519: Sequence[Ed25519PrivateKey] = (),
    rsa: RsaSigner | None = None,
) -> dict[str, str]:
    """Return the headers of `profile` for a request with exactly this `body`.

    `keys` are HMAC keys (see `secret_key`), newest first; each of them signs, and so does each of
    `ed25519`. `timestamp` is the time of the attempt in Unix seconds; `nonce` is new for each
    attempt (`new_nonce`); `hash_name` is the hash of `hook`, the other profiles have a fixed one.
    Raises ValueError without the key or nonce that the profile needs, instead of not signing.
    """
    timed = b"%d.%b" % (timestamp, body)
    match profile:
        case Profile.HOOK:
            return {
                "X-Hook-Signature": _signature_list(keys, timed, hash_name),
                "X-Hook-Timestamp": str(timestamp),
            }
        case Profile.STANDARD:
            # v1 is always HMAC-SHA-256, whatever hash the endpoint uses for `hook`
            signed = b"%b.%b" % (message_id.encode(), timed)
            signatures = [hmac.digest(key, signed, "sha256") for key in keys]
            return _standard_headers(message_id, timestamp, "v1", signatures)
        case Profile.STANDARD_ED25519:
            # v1a is pure Ed25519 (RFC 8032, section 5.1), not its prehashed variant
            signed = b"%b.%b" % (message_id.encode(), timed)
            signatures = [key.sign(signed) for key in ed25519]
            return _standard_headers(message_id, timestamp, "v1a", signatures)
        case Profile.NONCE:
            if not nonce:
                raise ValueError("the profile `nonce` needs a nonce")
            signed = b"%d.%b.%b" % (timestamp, nonce.encode(), body)
            return {
                "X-Webhook-Signature": _signature_list(keys, signed, HashName.SHA256),
                "X-Webhook-Timestamp": str(timestamp),
                "X-Webhook-Nonce": nonce,
                "X-Webhook-Attempt": str(attempt),
                "X-Webhook-ID": message_id,
            }
        case Profile.BODY:
            return {
                "X-Webhook-Signature": _signature_list(keys, body, HashName.SHA256),
                "X-Webhook-Id": message_id,
                "X-Webhook-Event": event_type,
            }
        case Profile.RSA:
            # One signature, by the newest key: the receiver finds the key by its id. Older keys
            # stay in the directory while requests that they signed may arrive.
            if rsa is None:
                raise ValueError("a request cannot be signed without a key")
            return {
                "X-Webhook-Signature": "rsa-sha256=" + base64.b64encode(rsa.sign(timed)).decode(),
                "X-Webhook-Timestamp": str(timestamp),
                "X-Webhook-Key-Id": rsa.kid,
            }
        case _:
            assert_never(profile)


def merged_headers(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge the headers of several profiles into those of one request."""
    headers: dict[str, str] = {}
    for part in parts:
        for name, value in part.items():
            if name == _SHARED_HEADER and name in headers:
                # Standard Webhooks: "a list of signatures, space delimited", of any versions
                value = f"{headers[name]} {value}"
            headers[name] = value
    return headers


def _signature_list(keys: Sequence[bytes], signed: bytes, hash_name: HashName) -> str:
    """Return one `<hash>=<hex>` per key, newest first, separated by commas."""
    if not keys:
        raise ValueError("a request cannot be signed without a key")
    return ",".join(f"{hash_name}={hmac.digest(key, signed, hash_name).hex()}" for key in keys)


def _standard_headers(
    message_id: str, timestamp: int, version: str, signatures: Sequence[bytes]
) -> dict[str, str]:
    if not signatures:
        raise ValueError("a request cannot be signed without a key")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        _SHARED_HEADER: " ".join(
            f"{version},{base64.b64encode(signature).decode()}" for signature in signatures
        ),
    }


_PROFILE_NAMES = ", ".join(Profile)


def _invalid_secret(detail: str) -> InvalidInput:
    return InvalidInput.at("/secret", detail, code="invalid_secret")


def _invalid_profiles(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_signatures")
