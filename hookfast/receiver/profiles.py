"""The signature profiles: the headers and the signed message of each. Pure.

| profile            | headers                                          | signed message
|--------------------|--------------------------------------------------|-----------------------
| `rsa`              | X-Webhook-{Signature, Timestamp, Key-Id}         | `timestamp.body`
| `standard-ed25519` | webhook-{id, timestamp, signature} with `v1a,`   | `id.timestamp.body`
| `standard`         | webhook-{id, timestamp, signature} with `v1,`    | `id.timestamp.body`
| `nonce`            | X-Webhook-{Signature, Timestamp, Nonce}          | `timestamp.nonce.body`
| `hook`             | X-Hook-{Signature, Timestamp}                    | `timestamp.body`
| `body`             | X-Webhook-Signature                              | `body`
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

from .errors import MalformedHeader
from .headers import SignedHeaders, decimal

ProfileName: TypeAlias = Literal["rsa", "standard-ed25519", "standard", "nonce", "hook", "body"]

STRONGEST_FIRST: tuple[ProfileName, ...] = get_args(ProfileName)
"""The order in which the signatures of a request are considered: first those by an asymmetric key,
then those of the message id, of a nonce, of a timestamp, and of the body alone."""

SIGNATURE_HEADERS: dict[ProfileName, str] = {
    "rsa": "X-Webhook-Signature",
    "standard-ed25519": "webhook-signature",
    "standard": "webhook-signature",
    "nonce": "X-Webhook-Signature",
    "hook": "X-Hook-Signature",
    "body": "X-Webhook-Signature",
}

_SCHEMES: dict[ProfileName, tuple[str, ...]] = {
    "rsa": ("rsa-sha256",),
    "standard-ed25519": ("v1a",),
    "standard": ("v1",),
    "nonce": ("sha256",),
    "hook": ("sha1", "sha256", "sha512"),
    "body": ("sha256",),
}
"""The hashes or versions of each profile's signatures."""
MAX_SIGNATURES = 16

_NONCE = re.compile(r"[A-Za-z0-9_\-+/=]{8,256}")  # without a dot, which separates it from the body


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of a header: `scheme` is its hash or version, `value` the undecoded text."""

    scheme: str
    value: str


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """The message that a request claims was signed under one profile, not verified yet."""

    profile: ProfileName
    message_id: str
    timestamp: int | None  # Unix seconds; None: the profile signs no time
    message: bytes
    signatures: tuple[Signature, ...]


def signatures(headers: SignedHeaders, profile: ProfileName) -> tuple[Signature, ...]:
    """Return the signatures that can belong to `profile`; none when its header is missing.

    Three profiles share X-Webhook-Signature: `rsa` has its own scheme, and `nonce` needs a nonce.
    Unknown schemes are ignored, because a newer sender may add some.
    """
    value = headers.get(SIGNATURE_HEADERS[profile])
    if value is None or (profile == "nonce" and "X-Webhook-Nonce" not in headers):
        return ()
    separator, inner = (" ", ",") if profile.startswith("standard") else (",", "=")
    parts = [part.strip().partition(inner) for part in value.split(separator)]
    if len(parts) > MAX_SIGNATURES:
        raise MalformedHeader(
            f"{SIGNATURE_HEADERS[profile]} has more than {MAX_SIGNATURES} signatures",
            header=SIGNATURE_HEADERS[profile],
        )
    schemes = _SCHEMES[profile]
    return tuple(Signature(scheme, rest) for scheme, _, rest in parts if scheme in schemes)


def signed_message(
    headers: SignedHeaders,
    body: bytes,
    *,
    profile: ProfileName,
    signatures: tuple[Signature, ...],
) -> SignedMessage:
    """Return the message that the headers describe. Raises MissingHeader or MalformedHeader when
    they are incomplete."""
    timestamp: int | None = None
    match profile:
        case "standard" | "standard-ed25519":
            message_id = _signed_id(headers)
            raw, timestamp = _time(headers, "webhook-timestamp")
            message = b".".join((message_id.encode(), raw, body))
        case "nonce":
            message_id = _message_id(headers, "X-Webhook-ID")
            raw, timestamp = _time(headers, "X-Webhook-Timestamp")
            message = b".".join((raw, _nonce(headers), body))
        case "hook":
            message_id = _message_id(headers, "X-Hook-Id")
            raw, timestamp = _time(headers, "X-Hook-Timestamp")
            message = b".".join((raw, body))
        case "rsa":
            message_id = _message_id(headers, "X-Webhook-ID")
            raw, timestamp = _time(headers, "X-Webhook-Timestamp")
            message = b".".join((raw, body))
        case "body":
            message_id = _message_id(headers, "X-Webhook-ID")
            message = body
        case _:
            assert_never(profile)
    return SignedMessage(
        profile=profile,
        message_id=message_id,
        timestamp=timestamp,
        message=message,
        signatures=signatures,
    )


def _message_id(headers: SignedHeaders, name: str) -> str:
    # every delivery has X-Hook-Id, which some profiles repeat under another name
    value = headers.first(name, "X-Hook-Id")
    if value is not None:
        return value
    return headers.require("X-Hook-Id", why="it identifies a message that is sent again")


def _signed_id(headers: SignedHeaders) -> str:
    name = "webhook-id"
    value = headers.require(name, why="it is part of the signed message")
    # A dot ends the id in the signed message, so an id with a dot would be ambiguous.
    if "." in value:
        raise MalformedHeader(f"{name} contains a dot", header=name)
    return value


def _time(headers: SignedHeaders, name: str) -> tuple[bytes, int]:
    value = headers.require(name, why="it is part of the signed message")
    return value.encode(), decimal(value, header=name)


def _nonce(headers: SignedHeaders) -> bytes:
    name = "X-Webhook-Nonce"
    value = headers.require(name, why="it is part of the signed message")
    if not _NONCE.fullmatch(value):
        raise MalformedHeader(f"{name} is not 8 to 256 characters of base64", header=name)
    return value.encode()
